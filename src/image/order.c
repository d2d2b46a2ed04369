#include "image/order.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/kpk_format.h"

/* Modules, entries, constants and levers begin with their name. */
static const char *name_of(const void *item)
{
    return *(const char *const *)item;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(name_of(*(const void *const *)a), name_of(*(const void *const *)b));
}

static int by_module_entry(const void *a, const void *b)
{
    const struct image_absent *x = *(const struct image_absent *const *)a;
    const struct image_absent *y = *(const struct image_absent *const *)b;
    int order = strcmp(x->module, y->module);
    return order ? order : strcmp(x->entry, y->entry);
}

static void *sorted(struct arena *arena, const void *items, size_t count, size_t stride,
                    int (*compare)(const void *, const void *))
{
    const void **list = arena_alloc(arena, count, sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = (const char *)items + i * stride;
    if (count)
        qsort(list, count, sizeof *list, compare);
    return list;
}

static void check_text(const char *what, const char *text, struct diags *diags)
{
    size_t size = text ? strlen(text) : 0;
    for (size_t at = 0, step; at < size; at += step) {
        step = str_utf8(text + at, size - at);
        if (!step) {
            struct str shown = {0};
            str_add_printable(&shown, text, size);
            diag_error(diags, "%s '%s' is not UTF-8", what, str_text(&shown));
            str_free(&shown);
            return;
        }
    }
}

static void check_name(const char *what, const char *name, struct diags *diags)
{
    if (!name || !*name)
        diag_error(diags, "empty %s name", what);
    check_text(what, name, diags);
}

/* "module:entry" must have one reading. */
static void check_half(const char *what, const char *name, struct diags *diags)
{
    check_name(what, name, diags);
    if (name && strchr(name, ':'))
        diag_error(diags, "%s '%s' has a ':' in its name, which joins module and entry", what,
                   name);
}

static void check_twice(const char *what, const char *where, const void *const *list, size_t count,
                        struct diags *diags)
{
    for (size_t i = 1; i < count; i++)
        if (strcmp(name_of(list[i - 1]), name_of(list[i])) == 0)
            diag_error(diags, "%s '%s' is listed twice%s%s", what, name_of(list[i]),
                       where ? " in module " : "", where ? where : "");
}

static bool block_ok(const uint32_t block[3])
{
    for (int axis = 0; axis < 3; axis++)
        if (block[axis] < 1 || block[axis] > 1024)
            return false;
    return block[0] * block[1] <= 1024 && block[0] * block[1] * block[2] <= 1024;
}

static void check_entry(const struct image_module *module, const struct image_entry *entry,
                        struct diags *diags)
{
    check_half("entry", entry->name, diags);
    check_text("symbol", entry->symbol, diags);
    check_text("twin", entry->twin_of, diags);
    bool twin = entry->twin_of && *entry->twin_of;
    if (entry->object >= module->object_count || entry->present & ~(unsigned)KPK_PRESENT_ALL ||
        entry->twin_bits > KPK_TWIN_CLOSE || twin != (entry->twin_bits != KPK_TWIN_NONE))
        BUG("an image entry contradicts itself");
    const uint32_t *block = entry->block;
    if (entry->present & KPK_PRESENT_BLOCK && !block_ok(block))
        diag_error(diags,
                   "entry '%s:%s' has a block of %u x %u x %u threads: the format allows 1 to 1024",
                   module->name, entry->name, block[0], block[1], block[2]);
    size_t cubin = module->objects[entry->object].size;
    if (entry->code_bytes > cubin)
        diag_error(diags, "entry '%s:%s' has %llu bytes of code in a cubin of %zu", module->name,
                   entry->name, (unsigned long long)entry->code_bytes, cubin);
}

static void check_module(const struct image_module *module, struct diags *diags)
{
    check_half("module", module->name, diags);
    check_text("source", module->source, diags);
    check_text("origin", module->origin, diags);
    if (!module->object_count)
        diag_error(diags, "module '%s' has no cubin", module->name);
    for (size_t i = 0; i < module->object_count; i++)
        if (!module->objects[i].size)
            diag_error(diags, "module '%s' has an empty cubin", module->name);
    for (size_t i = 0; i < module->entry_count; i++)
        check_entry(module, &module->entries[i], diags);
    for (size_t i = 0; i < module->constant_count; i++)
        check_name("constant", module->constants[i].name, diags);
    for (size_t i = 0; i < module->flag_count; i++)
        check_text("flag", module->flags[i], diags);
}

static void check_image(const struct image *image, struct diags *diags)
{
    check_name("target", image->target, diags);
    check_name("arch", image->arch, diags);
    check_text("stamp", image->stamp, diags);
    for (size_t i = 0; i < image->module_count; i++)
        check_module(&image->modules[i], diags);
    for (size_t i = 0; i < image->lever_count; i++) {
        const struct image_lever *lever = &image->levers[i];
        check_name("lever", lever->name, diags);
        check_name("lever variable", lever->env, diags);
        check_text("lever default", lever->text, diags);
        if (lever->kind > KPK_LEVER_TEXT)
            BUG("an image lever has an unknown kind");
    }
    for (size_t i = 0; i < image->absent_count; i++) {
        const struct image_absent *absent = &image->absents[i];
        check_half("absent module", absent->module, diags);
        check_half("absent entry", absent->entry, diags);
        check_text("reason", absent->reason, diags);
    }
}

struct object_key {
    const struct image_object *object;
    size_t first_entry, index;
};

static int by_entry_then_bytes(const void *a, const void *b)
{
    const struct object_key *x = a, *y = b;
    if (x->first_entry != y->first_entry)
        return x->first_entry < y->first_entry ? -1 : 1;
    if (x->object->size != y->object->size)
        return x->object->size < y->object->size ? -1 : 1;
    int order = memcmp(x->object->cubin, y->object->cubin, x->object->size);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void order_objects(struct ordered_module *module, struct arena *arena)
{
    size_t count = module->in->object_count;
    struct object_key *keys = arena_alloc(arena, count, sizeof *keys);
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct object_key){&module->in->objects[i], SIZE_MAX, i};
    for (size_t i = module->in->entry_count; i-- > 0;)
        keys[module->entries[i]->object].first_entry = i;
    qsort(keys, count, sizeof *keys, by_entry_then_bytes);
    module->objects = arena_alloc(arena, count, sizeof *module->objects);
    module->places = arena_alloc(arena, count, sizeof *module->places);
    for (size_t i = 0; i < count; i++) {
        module->objects[i] = keys[i].index;
        module->places[keys[i].index] = i;
    }
}

static void order_module(const struct image_module *in, struct arena *arena,
                         struct ordered_module *out, struct diags *diags)
{
    out->in = in;
    out->entries = sorted(arena, in->entries, in->entry_count, sizeof *in->entries, by_name);
    out->constants =
        sorted(arena, in->constants, in->constant_count, sizeof *in->constants, by_name);
    check_twice("entry", in->name, (const void *const *)out->entries, in->entry_count, diags);
    check_twice("constant", in->name, (const void *const *)out->constants, in->constant_count,
                diags);
    order_objects(out, arena);
}

bool order_image(const struct image *image, struct arena *arena, struct ordered *out_ordered,
                 struct diags *diags)
{
    *out_ordered = (struct ordered){0};
    size_t errors = diags->errors;
    check_image(image, diags);
    if (diags->errors != errors)
        return false;

    const struct image_module **modules =
        sorted(arena, image->modules, image->module_count, sizeof *image->modules, by_name);
    check_twice("module", NULL, (const void *const *)modules, image->module_count, diags);
    out_ordered->modules = arena_alloc(arena, image->module_count, sizeof *out_ordered->modules);
    for (size_t i = 0; i < image->module_count; i++) {
        order_module(modules[i], arena, &out_ordered->modules[i], diags);
        out_ordered->entry_count += modules[i]->entry_count;
        out_ordered->object_count += modules[i]->object_count;
        out_ordered->constant_count += modules[i]->constant_count;
        out_ordered->flag_count += modules[i]->flag_count;
    }
    out_ordered->levers =
        sorted(arena, image->levers, image->lever_count, sizeof *image->levers, by_name);
    check_twice("lever", NULL, (const void *const *)out_ordered->levers, image->lever_count, diags);
    const struct image_absent **absents =
        sorted(arena, image->absents, image->absent_count, sizeof *image->absents, by_module_entry);
    for (size_t i = 1; i < image->absent_count; i++)
        if (by_module_entry(&absents[i - 1], &absents[i]) == 0)
            diag_error(diags, "absence of '%s:%s' is declared twice", absents[i]->module,
                       absents[i]->entry);
    out_ordered->absents = absents;
    return diags->errors == errors;
}
