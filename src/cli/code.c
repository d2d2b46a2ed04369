#include "cli/code.h"

#include <stdlib.h>
#include <string.h>

bool code_bytes(struct view *view, uint32_t object, struct code_object *out_object)
{
    uint32_t blob;
    size_t errors = view->cli->diags.errors;
    *out_object = (struct code_object){0};
    out_object->size = view_object_blob(view, object, &blob).size;
    out_object->bytes = mem_alloc(1, out_object->size);
    if (kpk_read_blob(view->image, blob, out_object->bytes, out_object->size) == KPK_OK)
        return true;
    if (view->cli->diags.errors == errors) /* else the runtime has said it */
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path}, "cannot decode cubin %u",
                      blob);
    return false;
}

bool code_read(struct view *view, const char *module, uint32_t object,
               struct code_object *out_object)
{
    return code_bytes(view, object, out_object) &&
           cubin_read(arena_printf(&out_object->arena, "%s:%s", view->path, module),
                      out_object->bytes, out_object->size, &out_object->arena, &out_object->cubin,
                      &view->cli->diags);
}

void code_free(struct code_object *object)
{
    free(object->bytes);
    arena_free(&object->arena);
    *object = (struct code_object){0};
}

const struct cubin_entry *code_find(const struct cubin *cubin, const char *symbol)
{
    for (size_t i = 0; i < cubin->count; i++)
        if (strcmp(cubin->entries[i].name, symbol) == 0)
            return &cubin->entries[i];
    return NULL;
}

static bool digest_entry(struct view *view, const kpk_entry_info *entry,
                         const struct code_object *object, struct digest *out_digest)
{
    const struct cubin_entry *found = code_find(&object->cubin, entry->symbol);
    if (!found)
        return diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                             "entry '%s:%s' is in the index but not in its cubin", entry->module,
                             entry->name);
    *out_digest = digest_bytes((const char *)object->bytes + found->code_offset, found->code_bytes);
    return true;
}

bool code_digests(struct view *view, struct digest *out_digests)
{
    bool ok = true;
    for (uint32_t i = 0; i < view->info.module_count; i++) {
        kpk_module_info module = view_module(view, i);
        for (uint32_t j = 0; j < module.object_count; j++) {
            struct code_object object;
            bool read = code_read(view, module.name, module.first_object + j, &object);
            for (uint32_t k = 0; read && k < module.entry_count; k++) {
                uint32_t index = module.first_entry + k;
                kpk_entry_info entry = view_entry(view, index);
                if (entry.object == module.first_object + j)
                    read = digest_entry(view, &entry, &object, &out_digests[index]);
            }
            code_free(&object);
            ok = ok && read;
        }
    }
    return ok;
}
