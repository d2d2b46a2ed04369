#include "cli/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* Adds "no such THING" with the nearest of `names`. */
static void not_found(struct view *view, const char *what, const char *word,
                      const char *const *names, size_t count)
{
    const char *nearest = str_nearest(word, names, count);
    diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                  "no %s '%s' in this image%s%s%s", what, word, nearest ? " (did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'?)" : "");
}

bool view_find_module(struct view *view, const char *name, uint32_t *out_index)
{
    if (kpk_find_module(view->image, name, out_index) == KPK_OK)
        return true;
    uint32_t count = view->info.module_count;
    const char **names = mem_alloc(count, sizeof *names);
    for (uint32_t i = 0; i < count; i++)
        names[i] = view_module(view, i).name;
    not_found(view, "module", name, names, count);
    free(names);
    return false;
}

bool view_find_entry(struct view *view, uint32_t index, const char *name, kpk_entry_info *out_entry)
{
    kpk_module_info module = view_module(view, index);
    const char **names = mem_alloc(module.entry_count, sizeof *names);
    bool found = false;
    for (uint32_t i = 0; i < module.entry_count && !found; i++) {
        *out_entry = view_entry(view, module.first_entry + i);
        names[i] = out_entry->name;
        found = strcmp(out_entry->name, name) == 0;
    }
    if (!found)
        not_found(view, arena_printf(&view->cli->arena, "entry of module '%s' called", module.name),
                  name, names, module.entry_count);
    free(names);
    return found;
}

bool view_find(struct view *view, const char *word, uint32_t *out_module, bool *out_named,
               kpk_entry_info *out_entry)
{
    const char *colon = strchr(word, ':');
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    char *module = arena_strndup(&view->cli->arena, word, length);
    *out_named = colon;
    return view_find_module(view, module, out_module) &&
           (!colon || view_find_entry(view, *out_module, colon + 1, out_entry));
}
