#include "cli/build.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/git.h"

const char *build_sidecar_path(struct arena *arena, const struct build_target *build)
{
    return arena_printf(arena, "%s.json", build->path);
}

static int by_name(const void *a, const void *b)
{
    const struct compile_input *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* The project's own files that the units read, sorted, each once; not CUDA's headers nor ours. */
static struct compile_input *used_files(struct cli *cli, const struct build_target *build,
                                        size_t *out_count)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < build->module_count; i++)
        count += build->modules[i].result->opened_count;
    struct compile_input *files = arena_alloc(&cli->arena, count, sizeof *files);
    count = 0;
    for (size_t i = 0; i < build->module_count; i++) {
        const struct compile_result *result = build->modules[i].result;
        for (size_t j = 0; j < result->opened_count; j++)
            if (result->opened[j].name[0] != '/' && result->opened[j].name[0] != '<')
                files[count++] = result->opened[j];
    }
    qsort(files, count, sizeof *files, by_name);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(files[kept - 1].name, files[i].name) != 0)
            files[kept++] = files[i];
    *out_count = kept;
    return files;
}

static json_t *digest_json(const struct digest *digest)
{
    struct str hex = {0};
    digest_hex(digest, &hex);
    json_t *value = json_string(str_text(&hex));
    str_free(&hex);
    return value;
}

static json_t *sources_json(const struct compile_input *files, size_t count)
{
    json_t *sources = json_object();
    for (size_t i = 0; i < count; i++) {
        struct str key = {0};
        str_add_printable(&key, files[i].name, strlen(files[i].name));
        json_object_set_new(sources, str_text(&key), digest_json(&files[i].digest));
        str_free(&key);
    }
    return sources;
}

/* The description's own path under the root, NULL when it is elsewhere. */
static const char *own_name(struct cli *cli, const struct target *target)
{
    struct diags ignored = {0}; /* it was read a moment ago */
    const char *path = path_real(&cli->arena, target->path, &ignored);
    size_t length = strlen(target->root);
    diag_free(&ignored);
    bool under = path && strncmp(path, target->root, length) == 0 && path[length] == '/';
    return under ? path + length + 1 : NULL;
}

json_t *build_stamp(struct cli *cli, const struct build_target *build, bool needs_commit)
{
    const struct compile_result *first = build->modules[0].result;
    size_t count;
    struct compile_input *files = used_files(cli, build, &count);
    const char **names = arena_alloc(&cli->arena, count + 1, sizeof *names);
    const char *own = own_name(cli, build->target);
    for (size_t i = 0; i < count; i++)
        names[i] = files[i].name;
    names[count] = own;
    struct git_state git =
        git_query(build->target->root, names, count + (own != NULL), &cli->arena);
    if (needs_commit && !git.commit)
        diag_add(&cli->diags, DIAG_WARNING, (struct loc){.file = build->target->path},
                 "the stamp has no commit: %s", git.problem);
    json_t *object = json_object();
    json_object_set_new(object, "kpack", json_string(KPACK_VERSION));
    json_object_set_new(object, "nvrtc",
                        json_sprintf("%d.%d", first->nvrtc_major, first->nvrtc_minor));
    json_object_set_new(object, "target", json_string(build->target->name));
    json_object_set_new(object, "arch", json_string(build->target->arch));
    json_object_set_new(object, "commit", git.commit ? json_string(git.commit) : json_null());
    json_object_set_new(object, "dirty", git.commit ? json_boolean(git.dirty) : json_null());
    json_object_set_new(object, "sources", sources_json(files, count));
    return object;
}

static const char *dump(struct cli *cli, const json_t *value, size_t flags, const char *end)
{
    char *text = json_dumps(value, flags);
    if (!text)
        BUG("a value that JSON cannot hold");
    const char *copy = arena_printf(&cli->arena, "%s%s", text, end);
    free(text);
    return copy;
}

const char *build_stamp_text(struct cli *cli, const json_t *stamp)
{
    return dump(cli, stamp, JSON_COMPACT, "");
}

static json_t *units_json(const struct build_target *build)
{
    json_t *units = json_array();
    for (size_t i = 0; i < build->module_count; i++) {
        const struct build_module *module = &build->modules[i];
        double seconds = 0;
        uint64_t peak = 0;
        for (size_t j = 0; j < module->unit_count; j++) {
            seconds += module->result[j].seconds;
            peak = module->result[j].peak_bytes > peak ? module->result[j].peak_bytes : peak;
        }
        json_t *unit = json_object();
        json_object_set_new(unit, "module", json_string(module->declared->name));
        json_object_set_new(unit, "seconds", json_real(seconds));
        json_object_set_new(unit, "peak_bytes", json_integer((json_int_t)peak));
        json_array_append_new(units, unit);
    }
    return units;
}

const char *build_sidecar(struct cli *cli, const struct build_target *build, json_t *stamp,
                          size_t size)
{
    json_object_set_new(stamp, "image_bytes", json_integer((json_int_t)size));
    json_object_set_new(stamp, "image_digest", digest_json(&build->image_digest));
    json_object_set_new(stamp, "units", units_json(build));
    return dump(cli, stamp, JSON_INDENT(2) | JSON_REAL_PRECISION(6), "\n");
}
