#include "compile/recall.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/file.h"
#include "compile/nvrtc_log.h"
#include "compile/wire.h"

enum {
    LISTS_MAX = 16 /* lists of names kept of one unit */
};

enum holding {
    HOLDS_NOTHING,
    HOLDS_FILE,
    HOLDS_FOLDER,
    HOLDS_OTHER, /* something that is not read: special, or not permitted */
};

struct holds {
    enum holding what;
    struct compile_input input; /* of a file */
};

static const char *const holding_texts[] = {"nothing", "a file", "a folder", "no readable file"};

/* ---- What names hold --------------------------------------------------------------------------
 */

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void read_built_in(const char *name, struct holds *out)
{
    for (const struct embed_file *file = embed_headers; file->name; file++)
        if (strcmp(file->name, name) == 0) {
            out->what = HOLDS_FILE;
            out->input.digest = digest_bytes(file->data, file->size);
            out->input.size = file->size;
        }
}

/* False when there is nothing of that name. */
static bool read_disk(const char *path, struct holds *out)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        out->what = errno == ENOENT || errno == ENOTDIR ? HOLDS_NOTHING : HOLDS_OTHER;
        return out->what != HOLDS_NOTHING;
    }
    out->what = HOLDS_OTHER;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        out->what = HOLDS_FOLDER;
    } else if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        struct digest_state state;
        char chunk[64 * 1024];
        ssize_t got;
        digest_start(&state);
        while ((got = read(fd, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR))
            digest_add(&state, chunk, got > 0 ? (size_t)got : 0);
        if (got == 0)
            out->what = HOLDS_FILE;
        out->input.digest = digest_finish(&state);
        out->input.dev = info.st_dev;
        out->input.ino = info.st_ino;
        out->input.size = (uint64_t)info.st_size;
        out->input.mtime_ns = nanoseconds(info.st_mtim);
        out->input.ctime_ns = nanoseconds(info.st_ctim);
    }
    close(fd);
    return true;
}

/* As the worker's file layer finds it, each path once. */
static const struct holds *look(struct recall *recall, const char *root, const char *name)
{
    struct arena *arena = &recall->arena;
    bool cuda = str_starts(name, COMPILE_CUDA_ROOT "/");
    bool built_in = str_starts(name, COMPILE_HEADERS_ROOT "/");
    const char *path = cuda || built_in ? arena_strdup(arena, name) : path_join(arena, root, name);
    void **slot = map_at(&recall->files, path);
    if (*slot)
        return *slot;
    struct holds *holds = arena_alloc(arena, 1, sizeof *holds);
    *slot = holds;
    if (built_in)
        read_built_in(name + sizeof COMPILE_HEADERS_ROOT, holds);
    else if (!cuda)
        read_disk(path, holds);
    else
        for (size_t i = 0; i < recall->cuda->include_count; i++)
            if (read_disk(
                    path_join(arena, recall->cuda->includes[i], name + sizeof COMPILE_CUDA_ROOT),
                    holds))
                break;
    return holds;
}

/* ---- Keys -------------------------------------------------------------------------------------
 */

static void add_list(struct str *key, const char *type, const char *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        key_add(key, type, "", items[i]);
}

static void add_define(struct str *key, const char *define)
{
    struct str name = {0};
    size_t length = strcspn(define, "=");
    str_add(&name, define, length);
    key_add(key, "constant", str_text(&name), define[length] ? define + length + 1 : "");
    str_free(&name);
}

static void unit_key(const struct recall *recall, const struct compile_unit *unit,
                     const struct digest *source, struct str *out)
{
    key_add(out, "kpack", "", KPACK_COMPILE_ID); /* of the sources of this folder */
    key_add(out, "NVRTC", "", str_text(&recall->nvrtc));
    key_add(out, "arch", "", unit->arch);
    add_list(out, "flag", unit->flags, unit->flag_count);
    for (size_t i = 0; i < unit->define_count; i++)
        add_define(out, unit->defines[i]);
    add_list(out, "include folder", unit->includes, unit->include_count);
    add_list(out, "name", unit->expressions, unit->expression_count);
    if (unit->way != COMPILE_WHOLE) {
        key_add(out, "way", "", unit->way == COMPILE_LINKED ? "linked" : "variables");
        key_add(out, "nvJitLink", "", str_text(&recall->nvjitlink));
        add_list(out, "link option", unit->link_options, unit->link_option_count);
        add_list(out, "kernel", unit->kernels, unit->kernel_count);
    }
    key_add_digest(out, "source", unit->source, source);
}

static void add_holds(struct str *key, const char *type, const char *name,
                      const struct holds *holds)
{
    if (holds->what == HOLDS_FILE)
        key_add_digest(key, type, name, &holds->input.digest);
    else
        key_add(key, type, name, holding_texts[holds->what]);
}

/* The unit's key and what each name of a list holds now. */
static void result_key(struct recall *recall, const struct compile_unit *unit,
                       const struct str *of_unit, const char *const *opened, size_t opened_count,
                       const char *const *missed, size_t missed_count, struct str *out)
{
    str_clear(out);
    str_add(out, of_unit->data, of_unit->len);
    for (size_t i = 0; i < opened_count; i++)
        add_holds(out, "header", opened[i], look(recall, unit->root, opened[i]));
    for (size_t i = 0; i < missed_count; i++)
        add_holds(out, "missing", missed[i], look(recall, unit->root, missed[i]));
}

static struct digest last_key(const struct compile_unit *unit)
{
    struct str key = {0};
    key_add(&key, "unit", unit->name, unit->source);
    struct digest digest = key_digest(&key);
    str_free(&key);
    return digest;
}

bool recall_open(struct recall *recall, struct cache *cache, const struct cuda *cuda,
                 struct diags *diags)
{
    *recall = (struct recall){.cache = cache, .cuda = cuda};
    return nvrtc_identity(cuda->nvrtc, &recall->nvrtc, diags) &&
           (!cuda->nvjitlink || nvrtc_identity(cuda->nvjitlink, &recall->nvjitlink, diags));
}

void recall_close(struct recall *recall)
{
    str_free(&recall->nvrtc);
    str_free(&recall->nvjitlink);
    arena_free(&recall->arena);
    map_free(&recall->files);
    *recall = (struct recall){0};
}

/* ---- Entries ----------------------------------------------------------------------------------
 */

static struct wire_message message_of(const struct str *bytes)
{
    return (struct wire_message){.at = str_text(bytes), .end = str_text(bytes) + bytes->len};
}

struct names {
    const char **opened, **missed;
    size_t opened_count, missed_count;
};

static size_t take_lists(struct recall *recall, const struct digest *key, struct names *out)
{
    struct str bytes = {0};
    size_t count = 0;
    if (cache_get(recall->cache, CACHE_NAMES, key, &bytes)) {
        struct wire_message message = message_of(&bytes);
        while (count < LISTS_MAX && message.at < message.end && !message.bad) {
            struct names *names = &out[count];
            names->opened = wire_take_texts(&message, &recall->arena, &names->opened_count);
            names->missed = wire_take_texts(&message, &recall->arena, &names->missed_count);
            count += !message.bad;
        }
    }
    str_free(&bytes);
    return count;
}

static void add_names(struct str *out, const struct names *names)
{
    wire_texts(out, names->opened, names->opened_count);
    wire_texts(out, names->missed, names->missed_count);
}

static bool same_texts(const char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

static bool same_names(const struct names *a, const struct names *b)
{
    return same_texts(a->opened, a->opened_count, b->opened, b->opened_count) &&
           same_texts(a->missed, a->missed_count, b->missed, b->missed_count);
}

/* Puts a list in front of those that are kept, unless it is there. */
static void keep_names(struct recall *recall, const struct digest *key, const struct names *names,
                       struct diags *diags)
{
    struct names lists[LISTS_MAX];
    size_t count = take_lists(recall, key, lists);
    struct str bytes = {0};
    add_names(&bytes, names);
    for (size_t i = 0; i < count; i++) {
        if (same_names(&lists[i], names)) {
            str_free(&bytes);
            return;
        }
        if (i + 1 < LISTS_MAX)
            add_names(&bytes, &lists[i]);
    }
    cache_put(recall->cache, CACHE_NAMES, key, &bytes, diags);
    str_free(&bytes);
}

static uint64_t to_nanoseconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

static void put_result(struct recall *recall, const struct digest *key,
                       const struct compile_result *result, struct diags *diags)
{
    struct str bytes = {0};
    wire_bytes(&bytes, result->cubin, result->cubin_size);
    wire_text(&bytes, result->log);
    wire_u64(&bytes, result->spill_count);
    for (size_t i = 0; i < result->spill_count; i++) {
        const struct compile_spill *spill = &result->spills[i];
        wire_text(&bytes, spill->entry);
        wire_u64(&bytes, spill->store_bytes);
        wire_u64(&bytes, spill->load_bytes);
        wire_u64(&bytes, spill->registers);
        wire_u64(&bytes, spill->smem_bytes);
    }
    wire_texts(&bytes, result->symbols, result->symbol_count);
    wire_inputs(&bytes, result->opened, result->opened_count);
    wire_texts(&bytes, result->missed, result->missed_count);
    wire_u64(&bytes, to_nanoseconds(result->seconds));
    wire_u64(&bytes, result->peak_bytes);
    wire_u64(&bytes, (uint64_t)result->nvrtc_major);
    wire_u64(&bytes, (uint64_t)result->nvrtc_minor);
    cache_put(recall->cache, CACHE_RESULT, key, &bytes, diags);
    str_free(&bytes);
}

static void take_spills(struct wire_message *message, struct arena *arena,
                        struct compile_result *out)
{
    uint64_t count = wire_take_u64(message);
    if (message->bad || count > (uint64_t)(message->end - message->at) / sizeof(uint64_t)) {
        message->bad = true;
        return;
    }
    struct compile_spill *spills = arena_alloc(arena, (size_t)count, sizeof *spills);
    for (size_t i = 0; i < count; i++) {
        spills[i].entry = wire_take_text(message, arena);
        spills[i].store_bytes = (uint32_t)wire_take_u64(message);
        spills[i].load_bytes = (uint32_t)wire_take_u64(message);
        spills[i].registers = (uint32_t)wire_take_u64(message);
        spills[i].smem_bytes = (uint32_t)wire_take_u64(message);
    }
    out->spills = spills;
    out->spill_count = (size_t)count;
}

static bool get_result(struct recall *recall, const struct digest *key, struct arena *arena,
                       struct compile_result *out)
{
    struct str bytes = {0};
    *out = (struct compile_result){.log = ""};
    bool found = cache_get(recall->cache, CACHE_RESULT, key, &bytes);
    if (found) {
        struct wire_message message = message_of(&bytes);
        out->cubin = wire_take_bytes(&message, arena, &out->cubin_size);
        out->log = wire_take_text(&message, arena);
        take_spills(&message, arena, out);
        out->symbols = wire_take_texts(&message, arena, &out->symbol_count);
        out->opened = wire_take_inputs(&message, arena, &out->opened_count);
        out->missed = wire_take_texts(&message, arena, &out->missed_count);
        out->seconds = (double)wire_take_u64(&message) * 1e-9;
        out->peak_bytes = wire_take_u64(&message);
        out->nvrtc_major = (int)wire_take_u64(&message);
        out->nvrtc_minor = (int)wire_take_u64(&message);
        out->status = COMPILE_OK;
        found = wire_done(&message);
    }
    str_free(&bytes);
    if (!found)
        *out = (struct compile_result){.log = ""};
    return found;
}

/* ---- The last compile of a unit ---------------------------------------------------------------
 */

struct last {
    struct str key; /* of its result */
    struct names names;
    double seconds;
    uint64_t peak_bytes;
};

static void put_last(struct recall *recall, const struct compile_unit *unit, const struct str *key,
                     const struct names *names, const struct compile_result *result,
                     struct diags *diags)
{
    struct str bytes = {0};
    struct digest name = last_key(unit);
    wire_bytes(&bytes, key->data, key->len);
    add_names(&bytes, names);
    wire_u64(&bytes, to_nanoseconds(result->seconds));
    wire_u64(&bytes, result->peak_bytes);
    cache_put(recall->cache, CACHE_LAST, &name, &bytes, diags);
    str_free(&bytes);
}

static bool get_last(struct recall *recall, const struct compile_unit *unit, struct last *out)
{
    struct str bytes = {0};
    struct digest name = last_key(unit);
    *out = (struct last){0};
    bool found = cache_get(recall->cache, CACHE_LAST, &name, &bytes);
    if (found) {
        struct wire_message message = message_of(&bytes);
        size_t size;
        const void *key = wire_take_bytes(&message, &recall->arena, &size);
        str_add(&out->key, key, size);
        out->names.opened = wire_take_texts(&message, &recall->arena, &out->names.opened_count);
        out->names.missed = wire_take_texts(&message, &recall->arena, &out->names.missed_count);
        out->seconds = (double)wire_take_u64(&message) * 1e-9;
        out->peak_bytes = wire_take_u64(&message);
        found = wire_done(&message);
    }
    if (!found)
        str_free(&out->key);
    str_free(&bytes);
    return found;
}

void recall_expect(struct recall *recall, struct compile_unit *unit)
{
    struct last last;
    if (!get_last(recall, unit, &last))
        return;
    unit->expected_seconds = last.seconds;
    unit->expected_bytes = last.peak_bytes;
    str_free(&last.key);
}

/* ---- Finding and keeping ----------------------------------------------------------------------
 */

/* The inputs of a found result are those of now: equal bytes, other files perhaps. */
static void refresh(struct recall *recall, const struct compile_unit *unit,
                    struct compile_result *result)
{
    struct compile_input *inputs = (struct compile_input *)result->opened;
    for (size_t i = 0; i < result->opened_count; i++) {
        const char *name = inputs[i].name;
        inputs[i] = look(recall, unit->root, name)->input;
        inputs[i].name = name;
    }
}

static bool find(struct recall *recall, const struct compile_unit *unit, struct arena *arena,
                 struct compile_result *out_result)
{
    const struct holds *source = look(recall, unit->root, unit->source);
    if (!recall->cache->folder || source->what != HOLDS_FILE)
        return false;
    struct str of_unit = {0}, of_result = {0};
    struct names lists[LISTS_MAX];
    unit_key(recall, unit, &source->input.digest, &of_unit);
    struct digest key = key_digest(&of_unit);
    size_t count = take_lists(recall, &key, lists);
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        result_key(recall, unit, &of_unit, lists[i].opened, lists[i].opened_count, lists[i].missed,
                   lists[i].missed_count, &of_result);
        key = key_digest(&of_result);
        found = get_result(recall, &key, arena, out_result);
    }
    str_free(&of_unit);
    str_free(&of_result);
    return found;
}

bool recall_find(struct recall *recall, const struct compile_unit *unit, struct arena *arena,
                 struct compile_result *out_result, struct diags *diags)
{
    if (!find(recall, unit, arena, out_result))
        return false;
    refresh(recall, unit, out_result);
    nvrtc_log_add(out_result->log, unit->root, recall->cuda, unit->loc, diags);
    return true;
}

/* The keys of a result by what its compile read, and the names for a list of them. */
static struct names result_keys(struct recall *recall, const struct compile_unit *unit,
                                const struct compile_result *result, struct str *of_unit,
                                struct str *of_result)
{
    struct names names = {
        .opened = arena_alloc(&recall->arena, result->opened_count, sizeof(char *)),
        .missed = (const char **)result->missed,
        .missed_count = result->missed_count,
    };
    unit_key(recall, unit, &result->opened[0].digest, of_unit);
    str_add(of_result, of_unit->data, of_unit->len);
    for (size_t i = 1; i < result->opened_count; i++) {
        names.opened[names.opened_count++] = result->opened[i].name;
        key_add_digest(of_result, "header", result->opened[i].name, &result->opened[i].digest);
    }
    for (size_t i = 0; i < result->missed_count; i++) {
        /* A file that has appeared since was not there for the compile. */
        struct holds holds = *look(recall, unit->root, result->missed[i]);
        if (holds.what == HOLDS_FILE)
            holds.what = HOLDS_NOTHING;
        add_holds(of_result, "missing", result->missed[i], &holds);
    }
    return names;
}

void recall_keep(struct recall *recall, const struct compile_unit *unit,
                 const struct compile_result *result, struct diags *diags)
{
    if (!recall->cache->folder || recall->cache->read_only || !result->opened_count ||
        result->inputs == COMPILE_UNKNOWN)
        return;
    struct str of_unit = {0}, of_result = {0};
    struct names names = result_keys(recall, unit, result, &of_unit, &of_result);
    struct digest unit_digest = key_digest(&of_unit), result_digest = key_digest(&of_result);
    put_result(recall, &result_digest, result, diags);
    keep_names(recall, &unit_digest, &names, diags);
    put_last(recall, unit, &of_result, &names, result, diags);
    str_free(&of_unit);
    str_free(&of_result);
}

void recall_entries(struct recall *recall, const struct compile_unit *unit,
                    const struct compile_result *result, struct cache_name out[RECALL_ENTRIES])
{
    struct str of_unit = {0}, of_result = {0};
    result_keys(recall, unit, result, &of_unit, &of_result);
    out[0] = (struct cache_name){CACHE_NAMES, key_digest(&of_unit)};
    out[1] = (struct cache_name){CACHE_RESULT, key_digest(&of_result)};
    out[2] = (struct cache_name){CACHE_LAST, last_key(unit)};
    str_free(&of_unit);
    str_free(&of_result);
}

/* ---- For a record of the whole build ----------------------------------------------------------
 */

static void watch_opened(struct watch *out, const char *path, const struct compile_input *input)
{
    bool is_new;
    struct watch_item *item = watch_add(out, WATCH_BYTES, path, &is_new);
    item->stamp =
        (struct watch_stamp){input->dev, input->ino, input->size, input->mtime_ns, input->ctime_ns};
    item->digest = input->digest;
}

/* One place where the name was looked for. *out_found: it was there. */
static bool watch_place(struct watch *out, const char *path, const struct compile_input *input,
                        bool *out_found)
{
    const struct watch_item *item = input ? watch_find(out, WATCH_BYTES, path) : NULL;
    *out_found = item != NULL;
    if (item)
        return memcmp(&item->digest, &input->digest, sizeof input->digest) == 0;
    item = watch_find(out, WATCH_TYPE, path);
    const char *type = item ? item->text : watch_type_of(path);
    *out_found = input && strcmp(type, "file") == 0;
    if (*out_found)
        watch_opened(out, path, input);
    else
        watch_type(out, path);
    return *out_found || strcmp(type, "file") != 0;
}

/* `input` NULL: the name was tried in vain. */
static bool watch_name(const struct recall *recall, const char *root, const char *name,
                       const struct compile_input *input, struct watch *out)
{
    bool found = false, ok = true;
    if (str_starts(name, COMPILE_HEADERS_ROOT "/"))
        return true;
    if (!str_starts(name, COMPILE_CUDA_ROOT "/")) {
        ok = watch_place(out, path_join(&out->arena, root, name), input, &found);
    } else {
        const struct cuda *cuda = recall->cuda;
        for (size_t i = 0; i < cuda->include_count && ok && !found; i++)
            ok = watch_place(
                out, path_join(&out->arena, cuda->includes[i], name + sizeof COMPILE_CUDA_ROOT),
                input, &found);
    }
    return ok && found == (input != NULL);
}

bool recall_watch(const struct recall *recall, const struct compile_unit *unit,
                  const struct compile_result *result, struct watch *out)
{
    if (result->inputs == COMPILE_UNKNOWN)
        return false;
    for (size_t i = 0; i < result->opened_count; i++)
        if (!watch_name(recall, unit->root, result->opened[i].name, &result->opened[i], out))
            return false;
    for (size_t i = 0; i < result->missed_count; i++)
        if (!watch_name(recall, unit->root, result->missed[i], NULL, out))
            return false;
    return true;
}

/* ---- Explaining -------------------------------------------------------------------------------
 */

enum recall_reason recall_explain(struct recall *recall, const struct compile_unit *unit,
                                  struct arena *arena, struct key_field *out_old,
                                  struct key_field *out_new)
{
    struct compile_result ignored;
    struct last last;
    *out_old = *out_new = (struct key_field){0};
    if (find(recall, unit, arena, &ignored))
        return RECALL_HIT;
    if (!get_last(recall, unit, &last))
        return RECALL_NEW;
    struct str of_unit = {0}, now = {0};
    const struct holds *source = look(recall, unit->root, unit->source);
    unit_key(recall, unit, &source->input.digest, &of_unit);
    result_key(recall, unit, &of_unit, last.names.opened, last.names.opened_count,
               last.names.missed, last.names.missed_count, &now);
    bool changed = key_difference(&last.key, &now, out_old, out_new);
    struct key_field *both[] = {out_old, out_new};
    for (size_t i = 0; changed && i < 2; i++)
        if (both[i]->type)
            *both[i] = (struct key_field){arena_strdup(arena, both[i]->type),
                                          arena_strdup(arena, both[i]->name),
                                          arena_strdup(arena, both[i]->value)};
    str_free(&last.key);
    str_free(&of_unit);
    str_free(&now);
    return changed ? RECALL_CHANGED : RECALL_LOST;
}
