#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/watch.h"
#include "compile/cuda.h"

struct bytes {
    const unsigned char *at;
    size_t size;
};

static bool inside(struct bytes bytes, uint64_t offset, uint64_t size)
{
    return offset <= bytes.size && size <= bytes.size - offset;
}

/* The NT_GNU_BUILD_ID of a note segment; false when it has none. */
static bool note_build_id(struct bytes notes, struct bytes *out)
{
    Elf64_Nhdr note;
    for (size_t at = 0; inside(notes, at, sizeof note);) {
        memcpy(&note, notes.at + at, sizeof note);
        uint64_t name = at + sizeof note;
        uint64_t text = name + (((uint64_t)note.n_namesz + 3) & ~(uint64_t)3);
        uint64_t next = text + (((uint64_t)note.n_descsz + 3) & ~(uint64_t)3);
        if (!inside(notes, name, note.n_namesz) || !inside(notes, text, note.n_descsz))
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz >= 8 &&
            memcmp(notes.at + name, "GNU", 4) == 0) {
            *out = (struct bytes){notes.at + text, note.n_descsz};
            return true;
        }
        at = (size_t)next;
    }
    return false;
}

static bool build_id(struct bytes file, struct bytes *out)
{
    Elf64_Ehdr header;
    if (!inside(file, 0, sizeof header))
        return false;
    memcpy(&header, file.at, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at = header.e_phoff + i * sizeof segment;
        if (!inside(file, at, sizeof segment))
            return false;
        memcpy(&segment, file.at + at, sizeof segment);
        if (segment.p_type == PT_NOTE && inside(file, segment.p_offset, segment.p_filesz) &&
            note_build_id((struct bytes){file.at + segment.p_offset, (size_t)segment.p_filesz},
                          out))
            return true;
    }
    return false;
}

static void add_hex(struct bytes bytes, struct str *out)
{
    for (size_t i = 0; i < bytes.size; i++)
        str_addf(out, "%02x", bytes.at[i]);
}

static bool add_identity(const char *path, struct str *out, struct diags *diags)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && fstat(fd, &info) == 0, full = false;
    void *map = MAP_FAILED;
    if (ok)
        full = S_ISREG(info.st_mode) && info.st_size > 0;
    if (full)
        map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return diag_error(diags, "cannot read '%s': %s", path,
                          ok && !full ? "it is no library" : strerror(error));
    watch_note_stamp(path, &info);
    struct bytes file = {map, (size_t)info.st_size}, id;
    if (build_id(file, &id)) {
        str_adds(out, "build-id ");
        add_hex(id, out);
    } else {
        struct digest_state state;
        digest_start(&state);
        digest_add(&state, file.at, file.size);
        struct digest digest = digest_finish(&state);
        str_adds(out, "blake2b ");
        digest_hex(&digest, out);
    }
    str_addc(out, '\n');
    munmap(map, file.size);
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool nvrtc_identity(const char *path, struct str *out, struct diags *diags)
{
    static const char prefix[] = "libnvrtc-builtins.so.";
    const char *names[16];
    size_t count = 0;
    struct arena arena = {0};
    char *real = path_real(&arena, path, diags);
    const char *folder = real ? path_dir(&arena, real) : NULL;
    DIR *dir = folder ? opendir(folder) : NULL;
    if (folder && !dir)
        diag_error(diags, "cannot read '%s', where NVRTC's other libraries are: %s", folder,
                   strerror(errno));
    for (struct dirent *item; dir && count < 16 && (item = readdir(dir));)
        if (str_starts(item->d_name, prefix))
            names[count++] = path_join(&arena, folder, item->d_name);
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof *names, by_text);
    bool ok = dir && add_identity(real, out, diags);
    for (size_t i = 0; ok && i < count; i++)
        ok = add_identity(names[i], out, diags);
    arena_free(&arena);
    return ok;
}
