#include "compile/cubin.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
    MACHINE_CUDA = 190, /* EM_CUDA */
    OSABI_12 = 0x33,    /* up to CUDA 12: the arch in the low byte of the flags */
    OSABI_13 = 0x41,    /* CUDA 13: one byte up, and sh_info no longer holds registers */
    STO_ENTRY = 0x10,   /* st_other of a __global__ function */
    RESERVED_SMEM = 1024,
    RESERVED_SMEM_ARCH = 90,
    TYPE_INFO = SHT_LOPROC, /* .nv.info and .nv.info.ENTRY */
};

/* Attributes in .nv.info sections: a format byte, a kind byte, then by format. */
enum {
    FORMAT_SIZED = 4, /* a 16-bit size and that many bytes; the others are four bytes in all */

    ATTR_MAX_THREADS = 0x05,    /* three words */
    ATTR_REQNTID = 0x10,        /* three words */
    ATTR_FRAME_SIZE = 0x11,     /* symbol, bytes */
    ATTR_MIN_STACK_SIZE = 0x12, /* symbol, bytes */
    ATTR_REGCOUNT = 0x2f,       /* symbol, registers */
};

struct symbol_facts {
    uint32_t registers, frame, stack;
    bool has_registers, has_frame, has_stack;
};

struct section_facts {
    uint64_t shared_bytes; /* of the .nv.shared section that belongs to this .text section */
    uint32_t max_threads[3];
};

struct reader {
    const char *name;
    const unsigned char *bytes;
    size_t size;
    struct diags *diags;
    struct arena scratch;
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    struct section_facts *section_facts;
    Elf64_Sym *symbols;
    struct symbol_facts *symbol_facts;
    size_t symbol_count;
    const Elf64_Shdr *symtab;
};

static bool bad(struct reader *reader, const char *what)
{
    return diag_error(reader->diags, "'%s' is no usable cubin: %s", reader->name, what);
}

static bool inside(const struct reader *reader, uint64_t offset, uint64_t size)
{
    return offset <= reader->size && size <= reader->size - offset;
}

static uint32_t word(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static bool read_header(struct reader *reader)
{
    Elf64_Ehdr *header = &reader->header;
    if (reader->size < sizeof *header)
        return bad(reader, "it is shorter than an ELF header");
    memcpy(header, reader->bytes, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return bad(reader, "it is no ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != MACHINE_CUDA)
        return bad(reader, "it is an ELF file of another machine");
    if (header->e_ident[EI_OSABI] != OSABI_12 && header->e_ident[EI_OSABI] != OSABI_13)
        return bad(reader, "its ABI is neither that of CUDA 12 nor that of CUDA 13");
    if (header->e_shentsize != sizeof(Elf64_Shdr) || !header->e_shnum ||
        !inside(reader, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return bad(reader, "its section table is outside the file");
    return true;
}

static bool read_sections(struct reader *reader)
{
    size_t count = reader->header.e_shnum;
    reader->sections = arena_alloc(&reader->scratch, count, sizeof *reader->sections);
    reader->section_facts = arena_alloc(&reader->scratch, count, sizeof *reader->section_facts);
    memcpy(reader->sections, reader->bytes + reader->header.e_shoff,
           count * sizeof *reader->sections);
    for (size_t i = 0; i < count; i++) {
        const Elf64_Shdr *section = &reader->sections[i];
        if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
            !inside(reader, section->sh_offset, section->sh_size))
            return bad(reader, "a section is outside the file");
    }
    return true;
}

/* The NUL-terminated text at `offset` of a string table, NULL when it is not there. */
static const char *text_at(const struct reader *reader, uint32_t table, uint32_t offset)
{
    if (table >= reader->header.e_shnum)
        return NULL;
    const Elf64_Shdr *section = &reader->sections[table];
    if (section->sh_type != SHT_STRTAB || offset >= section->sh_size)
        return NULL;
    const char *text = (const char *)reader->bytes + section->sh_offset + offset;
    return memchr(text, '\0', (size_t)(section->sh_size - offset)) ? text : NULL;
}

static bool read_symbols(struct reader *reader)
{
    for (size_t i = 0; i < reader->header.e_shnum && !reader->symtab; i++)
        if (reader->sections[i].sh_type == SHT_SYMTAB)
            reader->symtab = &reader->sections[i];
    if (!reader->symtab)
        return bad(reader, "it has no symbol table");
    if (reader->symtab->sh_entsize != sizeof(Elf64_Sym) ||
        reader->symtab->sh_size % sizeof(Elf64_Sym))
        return bad(reader, "its symbol table has entries of another size");
    reader->symbol_count = (size_t)(reader->symtab->sh_size / sizeof(Elf64_Sym));
    reader->symbols = arena_alloc(&reader->scratch, reader->symbol_count, sizeof(Elf64_Sym));
    reader->symbol_facts =
        arena_alloc(&reader->scratch, reader->symbol_count, sizeof *reader->symbol_facts);
    if (reader->symbol_count)
        memcpy(reader->symbols, reader->bytes + reader->symtab->sh_offset,
               reader->symbol_count * sizeof(Elf64_Sym));
    return true;
}

static void take_attribute(struct reader *reader, uint32_t kind, const unsigned char *value,
                           size_t size, struct section_facts *section)
{
    if ((kind == ATTR_MAX_THREADS || kind == ATTR_REQNTID) && size >= 12) {
        for (size_t i = 0; section && i < 3; i++)
            section->max_threads[i] = word(value + 4 * i);
        return;
    }
    if (size < 8 || word(value) >= reader->symbol_count)
        return;
    struct symbol_facts *symbol = &reader->symbol_facts[word(value)];
    if (kind == ATTR_REGCOUNT) {
        symbol->registers = word(value + 4);
        symbol->has_registers = true;
    } else if (kind == ATTR_FRAME_SIZE) {
        symbol->frame = word(value + 4);
        symbol->has_frame = true;
    } else if (kind == ATTR_MIN_STACK_SIZE) {
        symbol->stack = word(value + 4);
        symbol->has_stack = true;
    }
}

static bool read_attributes(struct reader *reader, const Elf64_Shdr *info)
{
    struct section_facts *section = info->sh_info && info->sh_info < reader->header.e_shnum
                                        ? &reader->section_facts[info->sh_info]
                                        : NULL;
    const unsigned char *at = reader->bytes + info->sh_offset, *end = at + info->sh_size;
    while (end - at >= 4) {
        uint32_t format = at[0], kind = at[1];
        size_t size = (size_t)at[2] | (size_t)at[3] << 8;
        at += 4;
        if (format != FORMAT_SIZED)
            continue;
        if ((size_t)(end - at) < size)
            return bad(reader, "an attribute runs past its section");
        take_attribute(reader, kind, at, size, section);
        at += size;
    }
    return true;
}

static bool read_facts(struct reader *reader)
{
    for (size_t i = 0; i < reader->header.e_shnum; i++) {
        const Elf64_Shdr *section = &reader->sections[i];
        const char *name = text_at(reader, reader->header.e_shstrndx, section->sh_name);
        if (!name)
            return bad(reader, "a section has no name");
        if (section->sh_type == TYPE_INFO && str_starts(name, ".nv.info") &&
            !read_attributes(reader, section))
            return false;
        if (section->sh_type == SHT_NOBITS && str_starts(name, ".nv.shared.") && section->sh_info &&
            section->sh_info < reader->header.e_shnum)
            reader->section_facts[section->sh_info].shared_bytes = section->sh_size;
    }
    return true;
}

static bool is_entry(const Elf64_Sym *symbol)
{
    unsigned binding = ELF64_ST_BIND(symbol->st_info);
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & STO_ENTRY) &&
           (binding == STB_GLOBAL || binding == STB_WEAK);
}

static bool read_entry(struct reader *reader, uint32_t arch, size_t index, struct arena *arena,
                       struct cubin_entry *out)
{
    const Elf64_Sym *symbol = &reader->symbols[index];
    const struct symbol_facts *facts = &reader->symbol_facts[index];
    const char *name = text_at(reader, reader->symtab->sh_link, symbol->st_name);
    if (!name || !*name)
        return bad(reader, "an entry has no name");
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= reader->header.e_shnum)
        return bad(reader, "an entry has no code");
    const Elf64_Shdr *code = &reader->sections[symbol->st_shndx];
    if (code->sh_type != SHT_PROGBITS)
        return bad(reader, "an entry has no code");
    const struct section_facts *section = &reader->section_facts[symbol->st_shndx];
    uint64_t reserved = arch >= RESERVED_SMEM_ARCH ? RESERVED_SMEM : 0;
    uint64_t shared = section->shared_bytes > reserved ? section->shared_bytes - reserved : 0;
    if (shared > UINT32_MAX - 1)
        return bad(reader, "an entry has more shared memory than there can be");
    if (!facts->has_registers && reader->header.e_ident[EI_OSABI] != OSABI_12)
        return bad(reader, "an entry does not say its registers");
    *out = (struct cubin_entry){
        .name = arena_strdup(arena, name),
        .registers = facts->has_registers ? facts->registers : code->sh_info >> 24,
        .stack_bytes = facts->has_stack ? facts->stack : facts->frame,
        .static_smem = (uint32_t)shared,
        .code_bytes = code->sh_size,
        .code_offset = code->sh_offset,
    };
    memcpy(out->max_threads, section->max_threads, sizeof out->max_threads);
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct cubin_entry *)a)->name, ((const struct cubin_entry *)b)->name);
}

static bool read_entries(struct reader *reader, struct arena *arena, struct cubin *out)
{
    size_t count = 0;
    for (size_t i = 0; i < reader->symbol_count; i++)
        count += is_entry(&reader->symbols[i]);
    out->entries = arena_alloc(arena, count, sizeof *out->entries);
    for (size_t i = 0; i < reader->symbol_count; i++)
        if (is_entry(&reader->symbols[i]) &&
            !read_entry(reader, out->arch, i, arena, &out->entries[out->count++]))
            return false;
    qsort(out->entries, count, sizeof *out->entries, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(out->entries[i - 1].name, out->entries[i].name) == 0)
            return bad(reader, "two entries have one name");
    return true;
}

bool cubin_read(const char *name, const void *bytes, size_t size, struct arena *arena,
                struct cubin *out_cubin, struct diags *diags)
{
    *out_cubin = (struct cubin){0};
    struct reader reader = {.name = name, .bytes = bytes, .size = size, .diags = diags};
    bool ok = read_header(&reader) && read_sections(&reader) && read_symbols(&reader);
    if (ok) {
        uint32_t flags = reader.header.e_flags;
        bool new_abi = reader.header.e_ident[EI_OSABI] == OSABI_13;
        out_cubin->arch = new_abi ? flags >> 8 & 0xffff : flags & 0xff;
        ok = read_facts(&reader) && read_entries(&reader, arena, out_cubin);
    }
    if (!ok)
        *out_cubin = (struct cubin){0};
    arena_free(&reader.scratch);
    return ok;
}
