#include "cli/elf_object.h"

#include <elf.h>
#include <string.h>

enum section {
    NONE,
    RODATA,
    PROPERTY,
    STACK,
    SYMBOLS,
    STRINGS,
    SECTION_NAMES,
    SECTIONS,
};

/* A note with one property, laid out as GNU's tools do. */
struct property_note {
    Elf64_Nhdr header;
    char name[4];
    uint32_t type, size, value, padding;
};

enum {
    PROPERTY_AARCH64_FEATURES = 0xc0000000,
    PROPERTY_X86_FEATURES = 0xc0000002,
    BOTH_FEATURES = 3, /* branch targets, and return addresses: IBT and SHSTK, BTI and PAC */
};

uint16_t elf_object_machine(const char *name)
{
#if defined(__aarch64__)
    uint16_t host = EM_AARCH64;
#elif defined(__x86_64__)
    uint16_t host = EM_X86_64;
#else
    uint16_t host = EM_NONE;
#endif
    if (!name)
        return host;
    if (strcmp(name, "x86-64") == 0)
        return EM_X86_64;
    return strcmp(name, "aarch64") == 0 ? EM_AARCH64 : EM_NONE;
}

static void pad_to(struct str *out, size_t start, size_t align)
{
    while ((out->len - start) % align != 0)
        str_addc(out, '\0');
}

/* Adds a section's bytes and describes it. */
static void add_section(struct str *out, size_t start, Elf64_Shdr *section, uint32_t type,
                        uint64_t flags, size_t align, const void *bytes, size_t size)
{
    pad_to(out, start, align);
    *section = (Elf64_Shdr){
        .sh_type = type,
        .sh_flags = flags,
        .sh_offset = out->len - start,
        .sh_size = size,
        .sh_addralign = align,
    };
    str_add(out, bytes, size);
}

static uint32_t add_name(struct str *names, const char *name)
{
    uint32_t at = (uint32_t)names->len;
    str_add(names, name, strlen(name) + 1);
    return at;
}

/* The bytes, and behind them their count. */
static void add_bytes(struct str *out, size_t start, Elf64_Shdr *section, const void *bytes,
                      size_t size, uint64_t *out_count_at)
{
    add_section(out, start, section, SHT_PROGBITS, SHF_ALLOC, ELF_OBJECT_ALIGN, bytes, size);
    pad_to(out, start + section->sh_offset, sizeof(uint64_t));
    *out_count_at = out->len - start - section->sh_offset;
    uint64_t count = size;
    str_add(out, &count, sizeof count);
    section->sh_size = *out_count_at + sizeof count;
}

static void add_symbols(struct str *out, size_t start, Elf64_Shdr *sections, const char *symbol,
                        size_t size, uint64_t count_at)
{
    struct str names = {0}, second = {0};
    Elf64_Sym symbols[3] = {0};
    add_name(&names, "");
    str_addf(&second, "%s_size", symbol);
    symbols[1] = (Elf64_Sym){.st_name = add_name(&names, symbol), .st_size = size};
    symbols[2] = (Elf64_Sym){.st_name = add_name(&names, str_text(&second)),
                             .st_value = count_at,
                             .st_size = sizeof(uint64_t)};
    for (int i = 1; i < 3; i++) {
        symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
        symbols[i].st_shndx = RODATA;
    }
    add_section(out, start, &sections[SYMBOLS], SHT_SYMTAB, 0, 8, symbols, sizeof symbols);
    sections[SYMBOLS].sh_entsize = sizeof *symbols;
    sections[SYMBOLS].sh_link = STRINGS;
    sections[SYMBOLS].sh_info = 1; /* the first global one */
    add_section(out, start, &sections[STRINGS], SHT_STRTAB, 0, 1, names.data, names.len);
    str_free(&second);
    str_free(&names);
}

static void add_section_names(struct str *out, size_t start, Elf64_Shdr *sections)
{
    static const char *const names[SECTIONS] = {
        "", ".rodata", ".note.gnu.property", ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab"};
    struct str text = {0};
    uint32_t at[SECTIONS];
    for (int i = 0; i < SECTIONS; i++)
        at[i] = add_name(&text, names[i]);
    add_section(out, start, &sections[SECTION_NAMES], SHT_STRTAB, 0, 1, text.data, text.len);
    for (int i = 0; i < SECTIONS; i++)
        sections[i].sh_name = at[i];
    str_free(&text);
}

void elf_object_add(struct str *out, uint16_t machine, const char *symbol, const void *bytes,
                    size_t size)
{
    size_t start = out->len;
    uint64_t count_at;
    Elf64_Shdr sections[SECTIONS] = {0};
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_REL,
        .e_machine = machine,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof header,
        .e_shentsize = sizeof *sections,
        .e_shnum = SECTIONS,
        .e_shstrndx = SECTION_NAMES,
    };
    struct property_note note = {
        .header = {4, 16, NT_GNU_PROPERTY_TYPE_0},
        .name = "GNU",
        .type = machine == EM_AARCH64 ? PROPERTY_AARCH64_FEATURES : PROPERTY_X86_FEATURES,
        .size = sizeof note.value,
        .value = BOTH_FEATURES,
    };
    str_add(out, &header, sizeof header);
    add_bytes(out, start, &sections[RODATA], bytes, size, &count_at);
    add_section(out, start, &sections[PROPERTY], SHT_NOTE, SHF_ALLOC, 8, &note, sizeof note);
    add_section(out, start, &sections[STACK], SHT_PROGBITS, 0, 1, "", 0);
    add_symbols(out, start, sections, symbol, size, count_at);
    add_section_names(out, start, sections);
    pad_to(out, start, 8);
    header.e_shoff = out->len - start;
    memcpy(out->data + start, &header, sizeof header);
    str_add(out, sections, sizeof sections);
}
