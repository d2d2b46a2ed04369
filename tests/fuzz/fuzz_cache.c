/* Finds hostile entries in a cache: as files that a crash or another program left, or as bytes that
 * were kept under a right digest. Which of both, and of which kind, the first byte says. What is
 * found is what was kept; what is not whole is removed.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cache/cache.h"
#include "cache/cache_entry.h"
#include "cache/record.h"
#include "compile/recall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];
static struct cache cache;
static struct cuda cuda;
static struct digest keys[CACHE_KINDS];
static char *paths[CACHE_KINDS];
static struct str genuine[CACHE_KINDS]; /* the files at the paths */

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct compile_unit unit_of(void)
{
    return (struct compile_unit){
        .name = "unit", .root = folder, .source = "k.cu", .arch = "sm_90a", .loc = {"t.lua", 1, 1}};
}

static int nibble(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* An entry's key is in its name: ab/cdef...-KIND. */
static void note_entry(const char *start, const char *name)
{
    size_t length = strlen(name);
    const char *letter = length > 2 ? memchr(cache_letters, name[length - 1], CACHE_KINDS) : NULL;
    if (length != 2 * sizeof(struct digest) || letter == NULL)
        return;
    size_t kind = (size_t)(letter - cache_letters);
    char hex[2 * sizeof(struct digest) + 1];
    snprintf(hex, sizeof hex, "%.2s%.*s", start, (int)(length - 2), name);
    for (size_t i = 0; i < sizeof(struct digest); i++)
        keys[kind].bytes[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    require(asprintf(&paths[kind], "%s/cache/%s/%s", folder, start, name) > 0);
}

static void note_entries(void)
{
    char path[sizeof folder + 300];
    snprintf(path, sizeof path, "%s/cache", folder);
    DIR *starts = opendir(path);
    require(starts != NULL);
    for (struct dirent *start; (start = readdir(starts)) != NULL;) {
        if (start->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/cache/%s", folder, start->d_name);
        DIR *names = opendir(path);
        require(names != NULL);
        for (struct dirent *name; (name = readdir(names)) != NULL;)
            note_entry(start->d_name, name->d_name);
        closedir(names);
    }
    closedir(starts);
}

static struct recall begin(void)
{
    struct recall recall = {.cache = &cache, .cuda = &cuda};
    str_adds(&recall.nvrtc, "an nvrtc");
    return recall;
}

/* One unit's result, and one build's record. */
static void keep_genuine(void)
{
    static const struct compile_input opened[] = {{.name = "k.cu"}};
    static const char *const missed[] = {"missing.h"};
    static const struct compile_spill spill = {"k", 8, 4, 32, 0};
    static const char *const symbols[] = {"_Z1kv"};
    struct diags diags = {0};
    struct recall recall = begin();
    struct compile_unit unit = unit_of();
    struct compile_input source = opened[0];
    source.digest = digest_bytes("x", 1);
    struct compile_result result = {.status = COMPILE_OK,
                                    .cubin = "cubin",
                                    .cubin_size = 5,
                                    .log = "k.cu(1): warning #177-D: a variable\n",
                                    .symbols = symbols,
                                    .symbol_count = 1,
                                    .spills = &spill,
                                    .spill_count = 1,
                                    .opened = &source,
                                    .opened_count = 1,
                                    .missed = missed,
                                    .missed_count = 1,
                                    .seconds = 1,
                                    .nvrtc_major = 13};
    recall_keep(&recall, &unit, &result, &diags);
    recall_close(&recall);
    struct watch watch;
    struct str more = {0};
    watch_init(&watch);
    watch_path(&watch, folder);
    str_adds(&more, "more");
    keys[CACHE_BUILD] = digest_bytes("build", 5);
    record_put(&cache, &keys[CACHE_BUILD], &watch, NULL, 0, &more);
    watch_free(&watch);
    str_free(&more);
    require(diags.count == 0);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        perror(command);
}

static void make_folder(void)
{
    struct diags diags = {0};
    char path[128];
    snprintf(folder, sizeof folder, "%s/kpack-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(folder) != NULL);
    atexit(remove_folder);
    snprintf(path, sizeof path, "%s/k.cu", folder);
    require(file_publish(path, "x", 1, &diags));
    snprintf(path, sizeof path, "%s/cache", folder);
    cache_open(&cache, path, &diags);
    keep_genuine();
    note_entries();
    for (int kind = 0; kind < CACHE_KINDS; kind++)
        require(paths[kind] != NULL && file_read(paths[kind], &genuine[kind], &diags));
    require(diags.count == 0);
}

static void write_file(const char *path, const struct str *bytes)
{
    FILE *file = fopen(path, "wb");
    require(file != NULL && fwrite(str_text(bytes), 1, bytes->len, file) == bytes->len);
    require(fclose(file) == 0);
}

/* The bytes as the whole file: found only if cache_put of what was found writes that file. */
static void find_file(enum cache_kind kind, const struct str *bytes)
{
    struct str found = {0}, again = {0};
    struct diags diags = {0};
    write_file(paths[kind], bytes);
    if (cache_get(&cache, kind, &keys[kind], &found)) {
        cache_put(&cache, kind, &keys[kind], &found, &diags);
        require(file_read(paths[kind], &again, &diags));
        require(again.len == bytes->len && memcmp(again.data, bytes->data, again.len) == 0);
    } else {
        require(found.len == 0 && access(paths[kind], F_OK) != 0);
    }
    require(diags.count == 0);
    str_free(&found);
    str_free(&again);
}

static void check_result(const struct compile_result *result, size_t size)
{
    require(result->status == COMPILE_OK && result->cubin_size <= size);
    require(strlen(result->log) <= size && result->symbol_count <= size &&
            result->spill_count <= size && result->opened_count <= size &&
            result->missed_count <= size);
    for (size_t i = 0; i < result->spill_count; i++)
        require(strlen(result->spills[i].entry) <= size);
    for (size_t i = 0; i < result->symbol_count; i++)
        require(strlen(result->symbols[i]) <= size);
    for (size_t i = 0; i < result->opened_count; i++)
        require(strlen(result->opened[i].name) <= size);
}

/* The bytes as what an entry holds, among genuine ones of the other kinds. */
static void find_bytes(enum cache_kind kind, const struct str *bytes)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct str more = {0};
    cache_put(&cache, kind, &keys[kind], bytes, &diags);
    require(cache_get(&cache, kind, &keys[kind], &more));
    require(more.len == bytes->len && memcmp(str_text(&more), str_text(bytes), more.len) == 0);
    if (kind == CACHE_BUILD) {
        if (record_holds(&cache, &keys[kind], &more))
            require(more.len <= bytes->len &&
                    memcmp(str_text(&more), bytes->data + bytes->len - more.len, more.len) == 0);
        else
            require(more.len == 0);
    } else {
        struct recall recall = begin();
        struct compile_unit unit = unit_of();
        struct compile_result result;
        struct key_field was, is;
        if (recall_find(&recall, &unit, &arena, &result, &diags))
            check_result(&result, bytes->len + 4096);
        recall_expect(&recall, &unit);
        recall_explain(&recall, &unit, &arena, &was, &is);
        recall_close(&recall);
    }
    arena_free(&arena);
    diag_free(&diags);
    str_free(&more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (folder[0] == '\0')
        make_folder();
    if (size == 0)
        return 0;
    enum cache_kind kind = (enum cache_kind)(data[0] % CACHE_KINDS);
    struct str bytes = {0};
    str_add(&bytes, (const char *)data + 1, size - 1);
    if (data[0] & 0x80)
        find_file(kind, &bytes);
    else
        find_bytes(kind, &bytes);
    write_file(paths[kind], &genuine[kind]);
    str_free(&bytes);
    return 0;
}
