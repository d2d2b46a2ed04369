#include "kpk_image.h"

#include <stdlib.h>
#include <string.h>

/* Whether the image's tables may be read. */
static kpk_status usable(const kpk_image *image)
{
    if (image == NULL)
        return KPK_ERR_ARGUMENT;
    return kpk_ready(image) ? KPK_OK : KPK_ERR_NOT_BOUND;
}

/* Clears what comes out and says whether record `index` exists. */
static kpk_status begin(const kpk_image *image, enum kpk_section_id id, uint32_t index, void *out,
                        size_t size)
{
    if (out == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out, 0, size);
    kpk_status status = usable(image);
    if (status == KPK_OK && index >= kpk_count(image, id))
        status = KPK_ERR_ARGUMENT;
    return status;
}

kpk_status kpk_get_image(const kpk_image *image, kpk_image_info *out_info)
{
    if (out_info == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out_info, 0, sizeof(*out_info));
    kpk_status status = usable(image);
    if (status != KPK_OK)
        return status;
    const kpk_image *base = kpk_layer(image, kpk_layer_count(image) - 1);
    const struct kpk_target_record *target = base->target;
    out_info->target = kpk_text(base, target->name);
    out_info->arch = kpk_text(base, target->arch);
    out_info->stamp = kpk_text(base, target->stamp);
    out_info->format_version = base->header.prefix.version;
    out_info->compute_major = target->compute_major;
    out_info->compute_minor = target->compute_minor;
    out_info->nvrtc_major = target->nvrtc_major;
    out_info->nvrtc_minor = target->nvrtc_minor;
    out_info->sm_count = target->sm_count;
    out_info->smem_optin = target->smem_optin;
    out_info->module_count = kpk_count(image, KPK_SECTION_MODULES);
    out_info->entry_count = image->entry_count;
    out_info->object_count = kpk_count(image, KPK_SECTION_OBJECTS);
    out_info->blob_count = kpk_count(image, KPK_SECTION_BLOBS);
    out_info->group_count = kpk_count(image, KPK_SECTION_GROUPS);
    out_info->lever_count = kpk_count(image, KPK_SECTION_LEVERS);
    out_info->absent_count = kpk_count(image, KPK_SECTION_ABSENTS);
    for (uint32_t i = 0; i < kpk_layer_count(image); i++) {
        const kpk_image *layer = kpk_layer(image, i);
        if (out_info->min_driver < layer->target->min_driver)
            out_info->min_driver = layer->target->min_driver;
        out_info->raw_bytes += layer->target->raw_bytes;
        out_info->file_bytes += layer->header.prefix.file_size;
    }
    return KPK_OK;
}

kpk_status kpk_get_module(const kpk_image *image, uint32_t index, kpk_module_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_MODULES, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    const struct kpk_module_record *module = &image->modules[index];
    out_info->name = kpk_text(image, module->name);
    out_info->source = kpk_text(image, module->source);
    out_info->origin = kpk_text(image, module->origin);
    out_info->first_entry = module->first_entry;
    out_info->entry_count = module->entry_count;
    out_info->first_object = module->first_object;
    out_info->object_count = module->object_count;
    out_info->constant_count = module->constant_count;
    out_info->flag_count = module->flag_count;
    memcpy(out_info->digest, module->digest, sizeof(out_info->digest));
    return KPK_OK;
}

kpk_status kpk_get_entry(const kpk_image *image, uint32_t index, kpk_entry_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_ENTRIES, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    const struct kpk_entry_record *entry = &image->entries[index];
    out_info->kernel = kpk_handle(image, index);
    out_info->module = kpk_text(image, image->modules[entry->module].name);
    out_info->name = kpk_text(image, entry->name);
    out_info->symbol = kpk_symbol(image, entry);
    out_info->twin_of = kpk_text(image, entry->twin_of);
    out_info->bits = (kpk_twin_bits)entry->twin_bits;
    out_info->has_block = (entry->present & KPK_PRESENT_BLOCK) != 0;
    out_info->has_dynamic_smem = (entry->present & KPK_PRESENT_DYNAMIC_SMEM) != 0;
    out_info->has_spill = (entry->present & KPK_PRESENT_SPILL) != 0;
    memcpy(&out_info->block, entry->block, sizeof(out_info->block));
    out_info->dynamic_smem = entry->dynamic_smem;
    out_info->static_smem = entry->static_smem;
    out_info->registers = entry->registers;
    out_info->stack_bytes = entry->stack_bytes;
    out_info->spill_bytes = entry->spill_bytes;
    out_info->code_bytes = entry->code_bytes;
    out_info->module_index = entry->module;
    out_info->object = entry->object;
    return KPK_OK;
}

kpk_status kpk_get_object(const kpk_image *image, uint32_t index, kpk_object_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_OBJECTS, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    out_info->module = image->objects[index].module;
    out_info->blob = image->objects[index].blob;
    return KPK_OK;
}

kpk_status kpk_get_blob(const kpk_image *image, uint32_t index, kpk_blob_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_BLOBS, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    out_info->group = image->blobs[index].group;
    out_info->offset = image->blobs[index].offset;
    out_info->size = image->blobs[index].size;
    return KPK_OK;
}

kpk_status kpk_get_group(const kpk_image *image, uint32_t index, kpk_group_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_GROUPS, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    const struct kpk_group_record *group = &image->groups[index];
    out_info->offset = group->offset;
    out_info->packed_size = group->packed_size;
    out_info->raw_size = group->raw_size;
    out_info->first_blob = group->first_blob;
    out_info->blob_count = group->blob_count;
    return KPK_OK;
}

kpk_status kpk_find_module(const kpk_image *image, const char *module, uint32_t *out_index)
{
    if (out_index == NULL)
        return KPK_ERR_ARGUMENT;
    *out_index = 0;
    kpk_status status = module == NULL ? KPK_ERR_ARGUMENT : usable(image);
    if (status != KPK_OK)
        return status;
    uint32_t index = kpk_lookup_module(image, module);
    if (index == KPK_NONE)
        return KPK_ERR_ABSENT;
    *out_index = index;
    return KPK_OK;
}

kpk_status kpk_get_kernel(const kpk_image *image, kpk_kernel kernel, kpk_entry_info *out_info)
{
    if (image != NULL)
        image = kpk_layer_of(image, kernel);
    uint32_t index = image == NULL ? KPK_NONE : kpk_handle_index(image, kernel);
    return kpk_get_entry(image, index, out_info);
}

kpk_status kpk_get_constant(const kpk_image *image, uint32_t module, uint32_t position,
                            const char **out_name, int64_t *out_value)
{
    if (out_name == NULL || out_value == NULL)
        return KPK_ERR_ARGUMENT;
    *out_name = NULL;
    *out_value = 0;
    kpk_status status = usable(image);
    if (status != KPK_OK)
        return status;
    if (module >= kpk_count(image, KPK_SECTION_MODULES) ||
        position >= image->modules[module].constant_count)
        return KPK_ERR_ARGUMENT;
    const struct kpk_constant_record *constant =
        &image->constants[image->modules[module].first_constant + position];
    *out_name = kpk_text(image, constant->name);
    *out_value = constant->value;
    return KPK_OK;
}

kpk_status kpk_get_flag(const kpk_image *image, uint32_t module, uint32_t position,
                        const char **out_text)
{
    if (out_text == NULL)
        return KPK_ERR_ARGUMENT;
    *out_text = NULL;
    kpk_status status = usable(image);
    if (status != KPK_OK)
        return status;
    if (module >= kpk_count(image, KPK_SECTION_MODULES) ||
        position >= image->modules[module].flag_count)
        return KPK_ERR_ARGUMENT;
    *out_text = kpk_text(image, image->flags[image->modules[module].first_flag + position].text);
    return KPK_OK;
}

kpk_status kpk_constant(const kpk_image *image, const char *module, const char *name,
                        int64_t *out_value)
{
    if (out_value == NULL)
        return KPK_ERR_ARGUMENT;
    *out_value = 0;
    kpk_status status = module == NULL || name == NULL ? KPK_ERR_ARGUMENT : usable(image);
    if (status != KPK_OK)
        return status;
    image = kpk_layer_with(image, module);
    uint32_t index = kpk_lookup_module(image, module);
    if (index == KPK_NONE)
        return KPK_ERR_ABSENT;
    const struct kpk_constant_record *constants =
        &image->constants[image->modules[index].first_constant];
    for (uint32_t i = 0; i < image->modules[index].constant_count; i++) {
        if (strcmp(kpk_text(image, constants[i].name), name) == 0) {
            *out_value = constants[i].value;
            return KPK_OK;
        }
    }
    return KPK_ERR_ABSENT;
}

static bool is_off(const char *value)
{
    static const char *const words[] = {"0", "false", "off", "no"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(value, words[i]) == 0)
            return true;
    }
    return false;
}

kpk_status kpk_get_lever(const kpk_image *image, uint32_t index, kpk_lever *out_lever)
{
    kpk_status status = begin(image, KPK_SECTION_LEVERS, index, out_lever, sizeof(*out_lever));
    if (status != KPK_OK)
        return status;
    const struct kpk_lever_record *record = &image->levers[index];
    out_lever->name = kpk_text(image, record->name);
    out_lever->env = kpk_text(image, record->env);
    out_lever->kind = (kpk_lever_kind)record->kind;
    out_lever->default_on = record->on != 0;
    out_lever->default_text = kpk_text(image, record->text);
    out_lever->on = out_lever->default_on;
    out_lever->text = out_lever->default_text;
    const char *value = getenv(out_lever->env);
    if (value == NULL)
        return KPK_OK;
    out_lever->origin = KPK_FROM_ENV;
    switch (out_lever->kind) {
    case KPK_SWITCH:
        out_lever->on = !is_off(value);
        break;
    case KPK_IS1:
        out_lever->on = strcmp(value, "1") == 0;
        break;
    case KPK_PRESENCE:
        out_lever->on = true;
        break;
    case KPK_TEXT:
        out_lever->text = value;
        break;
    }
    return KPK_OK;
}

kpk_status kpk_find_lever(const kpk_image *image, const char *name, kpk_lever *out_lever)
{
    if (out_lever == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out_lever, 0, sizeof(*out_lever));
    kpk_status status = name == NULL ? KPK_ERR_ARGUMENT : usable(image);
    if (status != KPK_OK)
        return status;
    for (uint32_t at = 0; at < kpk_layer_count(image); at++) {
        const kpk_image *layer = kpk_layer(image, at);
        for (uint32_t i = 0; i < kpk_count(layer, KPK_SECTION_LEVERS); i++) {
            if (strcmp(kpk_text(layer, layer->levers[i].name), name) == 0)
                return kpk_get_lever(layer, i, out_lever);
        }
    }
    return KPK_ERR_ABSENT;
}

kpk_status kpk_get_absent(const kpk_image *image, uint32_t index, kpk_absent_info *out_info)
{
    kpk_status status = begin(image, KPK_SECTION_ABSENTS, index, out_info, sizeof(*out_info));
    if (status != KPK_OK)
        return status;
    out_info->module = kpk_text(image, image->absents[index].module);
    out_info->entry = kpk_text(image, image->absents[index].entry);
    out_info->reason = kpk_text(image, image->absents[index].reason);
    return KPK_OK;
}
