#include "cli/build.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/git.h"

/* JSON values are packed with '?' conversions nowhere: what cannot be packed is a NULL that
 * json_dumps turns into our own error. */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Root-relative names of all files under the root that the units read, sorted, each once. */
static const char **used_files(struct cli *cli, const struct build_target *build, size_t *out_count)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < build->module_count; i++)
        count += build->modules[i].result->opened_count + 1;
    const char **names = arena_alloc(&cli->arena, count, sizeof *names);
    count = 0;
    for (size_t i = 0; i < build->module_count; i++) {
        const struct compile_result *result = build->modules[i].result;
        names[count++] = build->modules[i].declared->source;
        for (size_t j = 0; j < result->opened_count; j++)
            names[count++] = result->opened[j];
    }
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(&cli->arena, build->target->root, names[i]);
        if ((!kept || strcmp(names[kept - 1], names[i]) != 0) && names[i][0] != '/' &&
            file_is_regular(path))
            names[kept++] = names[i];
    }
    *out_count = kept;
    return names;
}

static json_t *digest_json(const void *bytes, size_t size)
{
    struct digest_state state;
    struct str hex = {0};
    digest_start(&state);
    digest_add(&state, bytes, size);
    struct digest digest = digest_finish(&state);
    digest_hex(&digest, &hex);
    json_t *value = json_string(str_text(&hex));
    str_free(&hex);
    return value;
}

static json_t *sources_json(struct cli *cli, const struct build_target *build,
                            const char *const *names, size_t count)
{
    json_t *sources = json_object();
    struct str bytes = {0};
    for (size_t i = 0; i < count; i++) {
        struct diags ignored = {0}; /* gone since it was compiled: null */
        char *path = path_join(&cli->arena, build->target->root, names[i]);
        bool ok = file_read(path, &bytes, &ignored);
        struct str key = {0};
        str_add_printable(&key, names[i], strlen(names[i]));
        json_object_set_new(sources, str_text(&key),
                            ok ? digest_json(bytes.data, bytes.len) : json_null());
        str_free(&key);
        diag_free(&ignored);
    }
    str_free(&bytes);
    return sources;
}

static json_t *stamp_json(struct cli *cli, const struct build_target *build)
{
    const struct compile_result *first = build->modules[0].result;
    size_t count;
    const char **names = used_files(cli, build, &count);
    struct git_state git = git_query(build->target->root, names, count, &cli->arena);
    json_t *object = json_object();
    json_object_set_new(object, "kpack", json_string(KPACK_VERSION));
    json_object_set_new(object, "nvrtc",
                        json_sprintf("%d.%d", first->nvrtc_major, first->nvrtc_minor));
    json_object_set_new(object, "target", json_string(build->target->name));
    json_object_set_new(object, "arch", json_string(build->target->arch));
    json_object_set_new(object, "commit", git.commit ? json_string(git.commit) : json_null());
    json_object_set_new(object, "dirty", git.commit ? json_boolean(git.dirty) : json_null());
    json_object_set_new(object, "sources", sources_json(cli, build, names, count));
    return object;
}

static const char *dump(struct cli *cli, json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags);
    json_decref(value);
    if (!text)
        BUG("a value that JSON cannot hold");
    const char *copy = arena_printf(&cli->arena, "%s%s", text, flags ? "\n" : "");
    free(text);
    return copy;
}

const char *build_stamp(struct cli *cli, const struct build_target *build)
{
    return dump(cli, stamp_json(cli, build), JSON_COMPACT);
}

static json_t *units_json(const struct build_target *build)
{
    json_t *units = json_array();
    for (size_t i = 0; i < build->module_count; i++) {
        const struct compile_result *result = build->modules[i].result;
        json_t *unit = json_object();
        json_object_set_new(unit, "module", json_string(build->modules[i].declared->name));
        json_object_set_new(unit, "seconds", json_real(result->seconds));
        json_object_set_new(unit, "peak_bytes", json_integer((json_int_t)result->peak_bytes));
        json_array_append_new(units, unit);
    }
    return units;
}

const char *build_sidecar(struct cli *cli, const struct build_target *build, const void *image,
                          size_t size)
{
    json_t *object = stamp_json(cli, build);
    json_object_set_new(object, "image_bytes", json_integer((json_int_t)size));
    json_object_set_new(object, "image_digest", digest_json(image, size));
    json_object_set_new(object, "units", units_json(build));
    return dump(cli, object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
}
