#include "cli/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static char *absence(struct arena *arena, const char *what, const char *word,
                     const char *const *names, size_t count)
{
    const char *nearest = str_nearest(word, names, count);
    return arena_printf(arena, "no %s '%s' in this image%s%s%s", what, word,
                        nearest ? " (did you mean '" : "", nearest ? nearest : "",
                        nearest ? "'?)" : "");
}

static char *module_absence(const struct view *view, const char *name)
{
    uint32_t count = view->info.module_count;
    const char **names = mem_alloc(count, sizeof *names);
    for (uint32_t i = 0; i < count; i++)
        names[i] = view_module(view, i).name;
    char *text = absence(&view->cli->arena, "module", name, names, count);
    free(names);
    return text;
}

static char *entry_absence(const struct view *view, uint32_t index, const char *name)
{
    struct arena *arena = &view->cli->arena;
    kpk_module_info module = view_module(view, index);
    const char **names = mem_alloc(module.entry_count, sizeof *names);
    for (uint32_t i = 0; i < module.entry_count; i++)
        names[i] = view_entry(view, module.first_entry + i).name;
    char *text = absence(arena, arena_printf(arena, "entry of module '%s' called", module.name),
                         name, names, module.entry_count);
    free(names);
    return text;
}

char *view_absence(const struct view *view, const char *module, const char *entry)
{
    uint32_t index;
    if (kpk_find_module(view->image, module, &index) != KPK_OK)
        return module_absence(view, module);
    return entry_absence(view, index, entry);
}

static bool find_entry(const struct view *view, uint32_t index, const char *name,
                       kpk_entry_info *out_entry)
{
    kpk_module_info module = view_module(view, index);
    for (uint32_t i = 0; i < module.entry_count; i++) {
        *out_entry = view_entry(view, module.first_entry + i);
        if (strcmp(out_entry->name, name) == 0)
            return true;
    }
    return false;
}

char *view_seek(const struct view *view, const char *word, struct view_named *out_named)
{
    const char *colon = strchr(word, ':');
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    char *module = arena_strndup(&view->cli->arena, word, length);
    *out_named = (struct view_named){.named = colon};
    if (kpk_find_module(view->image, module, &out_named->module) != KPK_OK)
        return module_absence(view, module);
    if (colon && !find_entry(view, out_named->module, colon + 1, &out_named->entry))
        return entry_absence(view, out_named->module, colon + 1);
    return NULL;
}

bool view_find(struct view *view, const char *word, struct view_named *out_named)
{
    char *problem = view_seek(view, word, out_named);
    return !problem ||
           diag_error_at(&view->cli->diags, (struct loc){.file = view->path}, "%s", problem);
}
