#include "cli/view.h"

#include <string.h>

#include "base/file.h"
#include "cli/report.h"

static const char *advice(kpk_status status)
{
    switch (status) {
    case KPK_ERR_IO:
    case KPK_ERR_FORMAT:
        return "name an image that 'kpack build' wrote";
    case KPK_ERR_VERSION:
        return "use the kpack that wrote it or a newer one, or build the image again";
    case KPK_ERR_DAMAGED:
        return "copy it again from where it came, or build it again";
    default:
        return NULL;
    }
}

static void on_message(void *user, kpk_severity severity, const char *text)
{
    struct view *view = user;
    if (!view->image) { /* while opening, the first error is the cause */
        if (severity == KPK_ERROR && !view->cause)
            view->cause = arena_strdup(&view->cli->arena, text);
        return;
    }
    enum diag_level level = severity == KPK_ERROR     ? DIAG_ERROR
                            : severity == KPK_WARNING ? DIAG_WARNING
                                                      : DIAG_NOTE;
    diag_add(&view->cli->diags, level, (struct loc){0}, "%s", text);
}

/* Every index below comes from the image's own verified counts. */
static void must(kpk_status status)
{
    if (status != KPK_OK)
        BUG(kpk_status_text(status));
}

static bool fail_open(struct view *view, kpk_status status)
{
    struct cli *cli = view->cli;
    /* A file that is there but cannot be read wants another cure than another name. */
    bool named_well = status == KPK_ERR_IO && file_is_regular(view->file);
    const char *cause = view->cause, *next = named_well ? NULL : advice(status);
    if (!cause)
        cause = arena_printf(&cli->arena, "%s: %s", view->path, kpk_status_text(status));
    diag_error(&cli->diags, "%s%s%s", cause, next ? "; " : "", next ? next : "");
    view_close(view);
    return false;
}

bool view_open_file(struct cli *cli, const char *file, const kpk_part_info *part, struct view *view)
{
    *view = (struct view){.cli = cli, .file = file, .path = file};
    kpk_open_desc desc = {.message = on_message, .message_user = view};
    if (part) {
        view->path = arena_printf(&cli->arena, "%s[%s]", file, part->target);
        view->offset = part->offset;
        desc.target = part->target;
    }
    kpk_status status = kpk_open(file, &desc, &view->image);
    if (status == KPK_OK && (part || !kpk_part_count(view->image)))
        status = kpk_get_image(view->image, &view->info);
    return status == KPK_OK || fail_open(view, status);
}

bool view_open(struct cli *cli, const char *path, struct view *view)
{
    if (!view_open_file(cli, path, NULL, view))
        return false;
    if (view->info.target)
        return true;
    view_close(view);
    return diag_error_at(&cli->diags, (struct loc){.file = path},
                         "is a bundle, expected an image of one target");
}

void view_close(struct view *view)
{
    kpk_close(view->image);
    view->image = NULL;
}

bool view_verify(const struct view *view)
{
    size_t errors = view->cli->diags.errors;
    bool ok = kpk_verify(view->image) == KPK_OK;
    if (!ok && view->cli->diags.errors == errors)
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path}, "the image is damaged");
    return ok;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The file was opened by its name more than once: another may have taken its place between. */
static bool is_opened(const struct view *view, const char *bytes, uint64_t size)
{
    kpk_image *image;
    kpk_image_info info;
    kpk_status status = kpk_open_memory(bytes, size, NULL, &image);
    if (status == KPK_OK)
        status = kpk_verify(image);
    kpk_get_image(image, &info); /* of a bundle nothing */
    bool ok = status == KPK_OK && same_text(info.target, view->info.target) &&
              same_text(info.arch, view->info.arch) && info.min_driver == view->info.min_driver;
    kpk_close(image);
    return ok;
}

bool view_bytes(const struct view *view, struct str *out)
{
    struct str file = {0};
    bool ok = view_verify(view) && file_read(view->file, &file, &view->cli->diags);
    uint64_t size = view->info.target ? view->info.file_bytes : file.len;
    bool long_enough = ok && file.len >= size && file.len - size >= view->offset;
    if (ok && !(long_enough && is_opened(view, file.data + view->offset, size)))
        ok = diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                           "the file changed while it was read: run the command once more");
    if (ok)
        str_add(out, file.data + view->offset, size);
    str_free(&file);
    return ok;
}

kpk_module_info view_module(const struct view *view, uint32_t index)
{
    kpk_module_info info;
    must(kpk_get_module(view->image, index, &info));
    return info;
}

kpk_entry_info view_entry(const struct view *view, uint32_t index)
{
    kpk_entry_info info;
    must(kpk_get_entry(view->image, index, &info));
    return info;
}

kpk_blob_info view_blob(const struct view *view, uint32_t index)
{
    kpk_blob_info info;
    must(kpk_get_blob(view->image, index, &info));
    return info;
}

kpk_blob_info view_object_blob(const struct view *view, uint32_t object, uint32_t *out_blob)
{
    kpk_object_info info;
    must(kpk_get_object(view->image, object, &info));
    *out_blob = info.blob;
    return view_blob(view, info.blob);
}

kpk_group_info view_group(const struct view *view, uint32_t index)
{
    kpk_group_info info;
    must(kpk_get_group(view->image, index, &info));
    return info;
}

kpk_lever view_lever(const struct view *view, uint32_t index)
{
    kpk_lever lever;
    must(kpk_get_lever(view->image, index, &lever));
    return lever;
}

kpk_absent_info view_absent(const struct view *view, uint32_t index)
{
    kpk_absent_info info;
    must(kpk_get_absent(view->image, index, &info));
    return info;
}

const char *view_constant(const struct view *view, uint32_t module, uint32_t position,
                          int64_t *out_value)
{
    const char *name;
    must(kpk_get_constant(view->image, module, position, &name, out_value));
    return name;
}

const char *view_flag(const struct view *view, uint32_t module, uint32_t position)
{
    const char *text;
    must(kpk_get_flag(view->image, module, position, &text));
    return text;
}

size_t view_group_modules(const struct view *view, uint32_t group, uint32_t *out_modules)
{
    size_t count = 0;
    for (uint32_t i = 0; i < view->info.module_count; i++) {
        kpk_module_info module = view_module(view, i);
        bool member = false;
        for (uint32_t j = 0; j < module.object_count && !member; j++) {
            uint32_t blob;
            member = view_object_blob(view, module.first_object + j, &blob).group == group;
        }
        if (member)
            out_modules[count++] = i;
    }
    return count;
}

const char *view_lever_kind(kpk_lever_kind kind)
{
    static const char *const names[] = {"switch", "is1", "presence", "text"};
    return names[kind];
}

char *view_block(const kpk_entry_info *entry, struct arena *arena)
{
    kpk_grid block = entry->block;
    if (!entry->has_block)
        return arena_strdup(arena, "-");
    if (block.z > 1)
        return arena_printf(arena, "%ux%ux%u", block.x, block.y, block.z);
    return block.y > 1 ? arena_printf(arena, "%ux%u", block.x, block.y)
                       : arena_printf(arena, "%u", block.x);
}

char *view_stamp(const struct view *view, struct arena *arena)
{
    const char *commit = NULL, *kpack = NULL, *text = view->info.stamp;
    int dirty = false;
    json_t *stamp = json_loads(text, 0, NULL);
    if (stamp && json_unpack(stamp, "{s:s, s:s, s:b}", "kpack", &kpack, "commit", &commit, "dirty",
                             &dirty) == 0)
        text = arena_printf(arena, "commit %s%s, kpack %s", commit,
                            dirty ? " and changes to it" : "", kpack);
    char *said = report_name(arena, text);
    json_decref(stamp);
    return said;
}
