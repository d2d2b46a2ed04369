#include "kpk_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kpk_image *kpk_layer_of(const kpk_image *image, kpk_kernel kernel)
{
    for (uint32_t i = 0; i < image->layer_count; i++) {
        if (kpk_handle_index(image->layers[i], kernel) != KPK_NONE)
            return image->layers[i];
    }
    return (kpk_image *)(uintptr_t)image;
}

kpk_image *kpk_layer_with(const kpk_image *image, const char *module)
{
    for (uint32_t i = 0; i < image->layer_count; i++) {
        if (kpk_lookup_module(image->layers[i], module) != KPK_NONE)
            return image->layers[i];
    }
    return (kpk_image *)(uintptr_t)image;
}

/* Whether one of an overlay's first `count` layers has an entry of that image too. */
static bool has_entry(const kpk_image *overlay, uint32_t count, const kpk_image *image,
                      const struct kpk_entry_record *entry)
{
    struct kpk_string module = image->modules[entry->module].name;
    for (uint32_t i = 0; i < count; i++) {
        if (kpk_lookup(overlay->layers[i], kpk_text(image, module), module.size,
                       kpk_text(image, entry->name), entry->name.size) != KPK_NONE)
            return true;
    }
    return false;
}

size_t kpk_kernel_count(const kpk_image *image)
{
    size_t count = 0;
    for (uint32_t i = 0; i < kpk_layer_count(image); i++)
        count += kpk_layer(image, i)->entry_count;
    return count;
}

kpk_kernel kpk_nth_kernel(const kpk_image *image, size_t position)
{
    kpk_kernel none = {0};
    uint32_t at = 0;
    while (position >= kpk_layer(image, at)->entry_count)
        position -= kpk_layer(image, at++)->entry_count;
    const kpk_image *layer = kpk_layer(image, at);
    uint32_t index = (uint32_t)position;
    bool covered = has_entry(image, at, layer, &layer->entries[index]);
    return covered ? none : kpk_handle(layer, index);
}

/* ---- Making one ---------------------------------------------------------------------------- */

static kpk_status check_arch(const kpk_image *base, const kpk_image *front)
{
    const char *below = kpk_text(base, base->target->arch);
    const char *above = kpk_text(front, front->target->arch);
    if (strcmp(below, above) == 0)
        return KPK_OK;
    return kpk_fail(base, KPK_ERR_ARGUMENT, "is for %s, the image to put in front, %s, is for %s",
                    below, front->name, above);
}

/* Handles tell layers apart by a part of their digests. */
static kpk_status check_tags(const kpk_image *base, const kpk_image *front)
{
    if (base->tag != front->tag)
        return KPK_OK;
    return kpk_fail(base, KPK_ERR_ARGUMENT,
                    "cannot stand behind %s: handles of the two cannot be told apart", front->name);
}

static kpk_status check_ready(const kpk_image *image)
{
    if (kpk_ready(image))
        return KPK_OK;
    return kpk_fail(image, KPK_ERR_NOT_BOUND,
                    "is a bundle whose part is not picked: call kpk_bind before kpk_overlay, or "
                    "open it with a target");
}

static bool same_bytes(const kpk_image *a, const kpk_image *b)
{
    return memcmp(a->header.header_digest, b->header.header_digest, KPK_DIGEST_SIZE) == 0;
}

static const char *constant_name(const kpk_image *image, const struct kpk_module_record *module,
                                 uint32_t position)
{
    return kpk_text(image, image->constants[module->first_constant + position].name);
}

/* The name of a constant that one of the two has and the other has not, or not with this value. */
static const char *other_constant(const kpk_image *base, const struct kpk_module_record *below,
                                  const kpk_image *front, const struct kpk_module_record *above)
{
    for (uint32_t i = 0; i < below->constant_count || i < above->constant_count; i++) {
        if (i >= above->constant_count)
            return constant_name(base, below, i);
        if (i >= below->constant_count)
            return constant_name(front, above, i);
        const struct kpk_constant_record *a = &base->constants[below->first_constant + i];
        const struct kpk_constant_record *b = &front->constants[above->first_constant + i];
        int order = strcmp(kpk_text(base, a->name), kpk_text(front, b->name));
        if (order != 0 || a->value != b->value)
            return order > 0 ? kpk_text(front, b->name) : kpk_text(base, a->name);
    }
    return NULL;
}

/* An entry of the module that no layer before ships, NULL when they ship all. */
static const char *left_entry(const kpk_image *base, const struct kpk_module_record *below,
                              const kpk_image *overlay)
{
    for (uint32_t i = 0; i < below->entry_count; i++) {
        const struct kpk_entry_record *entry = &base->entries[below->first_entry + i];
        if (!has_entry(overlay, overlay->layer_count, base, entry))
            return kpk_text(base, entry->name);
    }
    return NULL;
}

/* What kpk_constant says of a module must hold for every entry of it that is answered. */
static kpk_status check_constants(const kpk_image *base, const kpk_image *front,
                                  const kpk_image *overlay)
{
    for (uint32_t i = 0; i < kpk_count(front, KPK_SECTION_MODULES); i++) {
        const struct kpk_module_record *above = &front->modules[i];
        const char *name = kpk_text(front, above->name);
        uint32_t found = kpk_lookup_module(base, name);
        if (found == KPK_NONE)
            continue;
        const struct kpk_module_record *below = &base->modules[found];
        const char *constant = other_constant(base, below, front, above);
        const char *left = constant == NULL ? NULL : left_entry(base, below, overlay);
        if (left != NULL)
            return kpk_fail(base, KPK_ERR_CONSTANT,
                            "'%s:%s' would be left to it beside a module '%s' of %s whose constant "
                            "'%s' differs: ship all of the module's entries in front",
                            name, left, name, front->name, constant);
    }
    return KPK_OK;
}

/* Adds one layer behind those that are there. */
static kpk_status add_layer(kpk_image *overlay, kpk_image *layer)
{
    for (uint32_t i = 0; i < overlay->layer_count; i++) {
        const kpk_image *front = overlay->layers[i];
        if (same_bytes(layer, front))
            return KPK_OK;
        kpk_status status = check_arch(layer, front);
        if (status == KPK_OK)
            status = check_tags(layer, front);
        if (status == KPK_OK)
            status = check_constants(layer, front, overlay);
        if (status != KPK_OK)
            return status;
    }
    __atomic_add_fetch(&layer->holders, 1, __ATOMIC_RELAXED);
    overlay->layers[overlay->layer_count++] = layer;
    return KPK_OK;
}

static kpk_status make_overlay(const kpk_image *base, const kpk_image *front,
                               kpk_image **out_overlay)
{
    static const struct kpk_slot empty = {0, 0};
    char name[KPK_MESSAGE_SIZE / 2];
    snprintf(name, sizeof(name), "%s over %s", front->name, base->name);
    kpk_image *overlay = NULL;
    kpk_status status = kpk_make_image(name, &base->desc, &overlay);
    if (status != KPK_OK)
        return status;
    overlay->slots = &empty;
    kpk_publish_index(overlay);
    size_t count = (size_t)kpk_layer_count(front) + kpk_layer_count(base);
    overlay->layers = (kpk_image **)calloc(count, sizeof(*overlay->layers));
    if (overlay->layers != NULL) {
        *out_overlay = overlay;
        return KPK_OK;
    }
    kpk_close(overlay);
    return kpk_fail(base, KPK_ERR_MEMORY, "no memory for an overlay");
}

kpk_status kpk_overlay(kpk_image *base, kpk_image *front, kpk_image **out_overlay)
{
    if (out_overlay == NULL)
        return KPK_ERR_ARGUMENT;
    *out_overlay = NULL;
    if (base == NULL || front == NULL)
        return KPK_ERR_ARGUMENT;
    if (kpk_forked(base) || kpk_forked(front))
        return kpk_fail(base, KPK_ERR_FORKED, "the image was opened before fork");
    kpk_image *overlay = NULL;
    kpk_status status = check_ready(base);
    if (status == KPK_OK)
        status = check_ready(front);
    if (status == KPK_OK)
        status = make_overlay(base, front, &overlay);
    for (uint32_t i = 0; i < kpk_layer_count(front) && status == KPK_OK; i++)
        status = add_layer(overlay, kpk_layer(front, i));
    for (uint32_t i = 0; i < kpk_layer_count(base) && status == KPK_OK; i++)
        status = add_layer(overlay, kpk_layer(base, i));
    if (status == KPK_OK)
        *out_overlay = overlay;
    else
        kpk_close(overlay);
    return status;
}
