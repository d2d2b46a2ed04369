#include "kpk_image.h"

#include <string.h>

/* A tenth off the loops over entries and slots. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

static const uint32_t strides[KPK_SECTION_COUNT] = {
    sizeof(struct kpk_target_record), sizeof(struct kpk_module_record),
    sizeof(struct kpk_entry_record),  sizeof(struct kpk_slot),
    sizeof(struct kpk_object_record), sizeof(struct kpk_blob_record),
    sizeof(struct kpk_group_record),  sizeof(struct kpk_constant_record),
    sizeof(struct kpk_flag_record),   sizeof(struct kpk_lever_record),
    sizeof(struct kpk_absent_record), 1,
};

static const char *const section_names[KPK_SECTION_COUNT] = {
    "target", "module",   "entry", "slot",  "object", "blob",
    "group",  "constant", "flag",  "lever", "absent", "string",
};

static kpk_status bad_section(const kpk_image *image, uint32_t id, const char *what)
{
    return kpk_fail(image, KPK_ERR_DAMAGED, "the %s section: %s", section_names[id], what);
}

static kpk_status bad_record(const kpk_image *image, uint32_t id, uint32_t index, const char *what)
{
    return kpk_fail(image, KPK_ERR_DAMAGED, "%s record %u: %s", section_names[id], index, what);
}

bool kpk_all_zero(const uint8_t *bytes, uint64_t size)
{
    uint8_t any = 0;
    for (uint64_t i = 0; i < size; i++)
        any |= bytes[i];
    return any == 0;
}

static kpk_status check_sections(const kpk_image *image)
{
    const struct kpk_header *header = &image->header;
    uint64_t index_end = header->index_offset + header->index_size;
    uint64_t end = header->index_offset;
    for (uint32_t id = 0; id < KPK_SECTION_COUNT; id++) {
        const struct kpk_section *section = &header->sections[id];
        if (section->stride != strides[id])
            return bad_section(image, id, "its records have another size than this version's");
        if (section->size != (uint64_t)section->count * section->stride)
            return bad_section(image, id, "its size is not that of its records");
        /* All strides but the last section's are multiples of the alignment: no gap can be. */
        if (section->offset != end)
            return bad_section(image, id, "its offset does not follow the section before");
        if (section->size > index_end - end)
            return bad_section(image, id, "it ends behind the index");
        end += section->size;
    }
    if (index_end - end >= KPK_INDEX_ALIGN ||
        !kpk_all_zero(image->index + (end - header->index_offset), index_end - end))
        return kpk_fail(image, KPK_ERR_DAMAGED, "the index has bytes behind its last section");
    return KPK_OK;
}

static void set_tables(kpk_image *image)
{
    const uint8_t *at[KPK_SECTION_COUNT];
    for (uint32_t id = 0; id < KPK_SECTION_COUNT; id++)
        at[id] = image->index + (image->header.sections[id].offset - image->header.index_offset);
    /* Sections are aligned to 8 within an index that is, so these casts keep alignment. */
    image->target = (const struct kpk_target_record *)(const void *)at[KPK_SECTION_TARGET];
    image->modules = (const struct kpk_module_record *)(const void *)at[KPK_SECTION_MODULES];
    image->entries = (const struct kpk_entry_record *)(const void *)at[KPK_SECTION_ENTRIES];
    image->slots = (const struct kpk_slot *)(const void *)at[KPK_SECTION_SLOTS];
    image->objects = (const struct kpk_object_record *)(const void *)at[KPK_SECTION_OBJECTS];
    image->blobs = (const struct kpk_blob_record *)(const void *)at[KPK_SECTION_BLOBS];
    image->groups = (const struct kpk_group_record *)(const void *)at[KPK_SECTION_GROUPS];
    image->constants = (const struct kpk_constant_record *)(const void *)at[KPK_SECTION_CONSTANTS];
    image->flags = (const struct kpk_flag_record *)(const void *)at[KPK_SECTION_FLAGS];
    image->levers = (const struct kpk_lever_record *)(const void *)at[KPK_SECTION_LEVERS];
    image->absents = (const struct kpk_absent_record *)(const void *)at[KPK_SECTION_ABSENTS];
    image->strings = (const char *)at[KPK_SECTION_STRINGS];
    image->slot_mask = (uint64_t)kpk_count(image, KPK_SECTION_SLOTS) - 1;
}

static inline bool string_ok(const kpk_image *image, struct kpk_string string)
{
    uint64_t end = (uint64_t)string.offset + string.size;
    return end < kpk_count(image, KPK_SECTION_STRINGS) && image->strings[end] == '\0';
}

static inline bool name_ok(const kpk_image *image, struct kpk_string string)
{
    return string.size > 0 && string_ok(image, string);
}

/* Runs of records that must stand one behind the other and end with their table. */
static bool run_ok(uint32_t first, uint32_t count, uint32_t *next, uint32_t total)
{
    if (first != *next || count > total - first)
        return false;
    *next = first + count;
    return true;
}

static kpk_status check_target(const kpk_image *image)
{
    if (kpk_count(image, KPK_SECTION_TARGET) != 1)
        return bad_section(image, KPK_SECTION_TARGET, "there must be exactly one record");
    const struct kpk_target_record *target = image->target;
    if (!name_ok(image, target->name) || !name_ok(image, target->arch) ||
        !string_ok(image, target->stamp))
        return bad_record(image, KPK_SECTION_TARGET, 0, "a string is out of bounds");
    if (target->reserved != 0)
        return bad_record(image, KPK_SECTION_TARGET, 0, "reserved bytes are not zero");
    return KPK_OK;
}

static kpk_status check_modules(const kpk_image *image)
{
    uint32_t entry = 0, object = 0, constant = 0, flag = 0;
    uint32_t count = kpk_count(image, KPK_SECTION_MODULES);
    uint32_t entry_count = kpk_count(image, KPK_SECTION_ENTRIES);
    for (uint32_t i = 0; i < count; i++) {
        const struct kpk_module_record *module = &image->modules[i];
        if (!name_ok(image, module->name) || !string_ok(image, module->source) ||
            !string_ok(image, module->origin))
            return bad_record(image, KPK_SECTION_MODULES, i, "a string is out of bounds");
        if (!run_ok(module->first_entry, module->entry_count, &entry, entry_count) ||
            !run_ok(module->first_object, module->object_count, &object,
                    kpk_count(image, KPK_SECTION_OBJECTS)) ||
            !run_ok(module->first_constant, module->constant_count, &constant,
                    kpk_count(image, KPK_SECTION_CONSTANTS)) ||
            !run_ok(module->first_flag, module->flag_count, &flag,
                    kpk_count(image, KPK_SECTION_FLAGS)))
            return bad_record(image, KPK_SECTION_MODULES, i, "a run of records is out of bounds");
    }
    if (entry != entry_count || object != kpk_count(image, KPK_SECTION_OBJECTS) ||
        constant != kpk_count(image, KPK_SECTION_CONSTANTS) ||
        flag != kpk_count(image, KPK_SECTION_FLAGS))
        return bad_section(image, KPK_SECTION_MODULES, "records of other sections have no module");
    return KPK_OK;
}

/* The device's own limit is 1024 threads; the runtime only keeps the product sane. */
static inline bool block_ok(const struct kpk_entry_record *entry)
{
    const uint32_t *block = entry->block;
    if ((entry->present & KPK_PRESENT_BLOCK) == 0)
        return (block[0] | block[1] | block[2]) == 0;
    if (block[1] == 1 && block[2] == 1)
        return block[0] - 1 < 1024;
    /* 1024 is a power of two: all are below it when what they have in common is. */
    return ((block[0] - 1) | (block[1] - 1) | (block[2] - 1)) < 1024 &&
           block[0] * block[1] * block[2] <= 1024;
}

/* What an entry before has, which needs no second look. It starts with what no entry can say of its
 * object, and with strings that have been looked at: an index may hold any bytes. */
struct looked_at {
    uint64_t object;
    uint64_t object_bytes; /* of its cubin */
    struct kpk_string twin_of, symbol;
};

static inline bool same(struct kpk_string a, struct kpk_string b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static inline bool strings_ok(const kpk_image *image, const struct kpk_entry_record *entry,
                              struct looked_at *before)
{
    if (!same(entry->twin_of, before->twin_of) || !same(entry->symbol, before->symbol)) {
        if (!string_ok(image, entry->twin_of) || !string_ok(image, entry->symbol))
            return false;
        before->twin_of = entry->twin_of;
        before->symbol = entry->symbol;
    }
    return name_ok(image, entry->name);
}

static inline bool object_ok(const kpk_image *image, const struct kpk_module_record *module,
                             const struct kpk_entry_record *entry, struct looked_at *before)
{
    if (entry->object == before->object)
        return true;
    if (entry->object < module->first_object ||
        entry->object - module->first_object >= module->object_count)
        return false;
    before->object = entry->object;
    before->object_bytes = image->blobs[image->objects[entry->object].blob].size;
    return true;
}

static inline const char *entry_fault(const kpk_image *image, uint32_t index,
                                      const struct kpk_entry_record *entry,
                                      struct looked_at *before)
{
    if (!strings_ok(image, entry, before))
        return "a string is out of bounds";
    if (entry->module != index || !object_ok(image, &image->modules[index], entry, before))
        return "its module or object is another one's";
    if ((entry->present & ~(uint32_t)KPK_PRESENT_ALL) != 0 || entry->twin_bits > KPK_TWIN_CLOSE)
        return "reserved bits are not zero";
    if (!block_ok(entry))
        return "its block is not one";
    if (((entry->present & KPK_PRESENT_DYNAMIC_SMEM) == 0 && entry->dynamic_smem != 0) ||
        ((entry->present & KPK_PRESENT_SPILL) == 0 && entry->spill_bytes != 0))
        return "a field that is not present is not zero";
    if (entry->code_bytes > before->object_bytes)
        return "its code is larger than its cubin";
    return NULL;
}

static kpk_status check_module_entries(const kpk_image *image, uint32_t index)
{
    const struct kpk_module_record *module = &image->modules[index];
    struct looked_at before = {UINT64_MAX, 0, image->target->name, image->target->name};
    uint32_t end = module->first_entry + module->entry_count;
    for (uint32_t i = module->first_entry; i < end; i++) {
        const char *fault = entry_fault(image, index, &image->entries[i], &before);
        if (fault != NULL)
            return bad_record(image, KPK_SECTION_ENTRIES, i, fault);
    }
    return KPK_OK;
}

static kpk_status check_entries(const kpk_image *image)
{
    uint32_t module_count = kpk_count(image, KPK_SECTION_MODULES);
    kpk_status status = KPK_OK;
    for (uint32_t m = 0; m < module_count && status == KPK_OK; m++)
        status = check_module_entries(image, m);
    return status;
}

static kpk_status check_slots(const kpk_image *image)
{
    uint32_t count = kpk_count(image, KPK_SECTION_SLOTS);
    uint32_t entry_count = kpk_count(image, KPK_SECTION_ENTRIES);
    if (count == 0 || (count & (count - 1)) != 0 || count <= entry_count)
        return bad_section(image, KPK_SECTION_SLOTS,
                           "its count is not a power of two above the entries'");
    uint32_t used = 0, largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t entry = image->slots[i].entry;
        used += entry != 0;
        largest = entry > largest ? entry : largest;
    }
    /* With as many used slots as entries one slot at least is empty, and probing ends. */
    if (used != entry_count || largest > entry_count)
        return bad_section(image, KPK_SECTION_SLOTS, "its entries are not the image's");
    return KPK_OK;
}

static kpk_status check_objects(const kpk_image *image)
{
    uint32_t module_count = kpk_count(image, KPK_SECTION_MODULES);
    uint32_t blob_count = kpk_count(image, KPK_SECTION_BLOBS);
    for (uint32_t m = 0; m < module_count; m++) {
        uint32_t first = image->modules[m].first_object;
        uint32_t end = first + image->modules[m].object_count;
        for (uint32_t i = first; i < end; i++) {
            if (image->objects[i].module != m || image->objects[i].blob >= blob_count)
                return bad_record(image, KPK_SECTION_OBJECTS, i,
                                  "its module or blob is another one's");
        }
    }
    return KPK_OK;
}

static const char *group_fault(const kpk_image *image, uint32_t index, uint64_t *raw_total)
{
    const struct kpk_group_record *group = &image->groups[index];
    uint64_t end = 0;
    for (uint32_t i = group->first_blob; i < group->first_blob + group->blob_count; i++) {
        const struct kpk_blob_record *blob = &image->blobs[i];
        if (blob->group != index || blob->reserved != 0)
            return "a blob belongs to another group, or has reserved bytes that are not zero";
        if (blob->size == 0 || blob->offset != end || blob->size > group->raw_size - end)
            return "a blob is out of its bounds";
        end += blob->size;
    }
    if (end != group->raw_size)
        return "its raw bytes are not those of its blobs";
    *raw_total += end;
    return NULL;
}

static kpk_status check_groups(const kpk_image *image)
{
    uint64_t file_size = image->header.prefix.file_size;
    uint64_t end = image->header.index_offset + image->header.index_size;
    uint32_t next_blob = 0, blob_count = kpk_count(image, KPK_SECTION_BLOBS);
    uint32_t group_count = kpk_count(image, KPK_SECTION_GROUPS);
    uint64_t raw_total = 0;
    for (uint32_t i = 0; i < group_count; i++) {
        const struct kpk_group_record *group = &image->groups[i];
        if (group->offset != end || group->packed_size == 0 ||
            group->packed_size > file_size - group->offset)
            return bad_record(image, KPK_SECTION_GROUPS, i,
                              "its bytes do not follow the group before, or pass the file's end");
        if (group->raw_size == 0 || group->raw_size > KPK_GROUP_RAW_LIMIT)
            return bad_record(image, KPK_SECTION_GROUPS, i, "its raw size is out of bounds");
        if (!run_ok(group->first_blob, group->blob_count, &next_blob, blob_count))
            return bad_record(image, KPK_SECTION_GROUPS, i, "its blobs are out of bounds");
        const char *fault = group_fault(image, i, &raw_total);
        if (fault != NULL)
            return bad_record(image, KPK_SECTION_GROUPS, i, fault);
        end = group->offset + group->packed_size;
    }
    if (next_blob != blob_count)
        return bad_section(image, KPK_SECTION_BLOBS, "blobs have no group");
    if (end != file_size)
        return kpk_fail(image, KPK_ERR_DAMAGED, "the file has bytes behind its last group");
    if (raw_total != image->target->raw_bytes)
        return bad_record(image, KPK_SECTION_TARGET, 0, "its raw bytes are not the blobs' sum");
    return KPK_OK;
}

static kpk_status check_lists(const kpk_image *image)
{
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_CONSTANTS); i++) {
        if (!name_ok(image, image->constants[i].name))
            return bad_record(image, KPK_SECTION_CONSTANTS, i, "a string is out of bounds");
    }
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_FLAGS); i++) {
        if (!string_ok(image, image->flags[i].text))
            return bad_record(image, KPK_SECTION_FLAGS, i, "a string is out of bounds");
    }
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_LEVERS); i++) {
        const struct kpk_lever_record *lever = &image->levers[i];
        if (!name_ok(image, lever->name) || !name_ok(image, lever->env) ||
            !string_ok(image, lever->text))
            return bad_record(image, KPK_SECTION_LEVERS, i, "a string is out of bounds");
        bool text = lever->kind == KPK_LEVER_TEXT;
        if (lever->kind > KPK_LEVER_TEXT || lever->on > (text ? 0 : 1) ||
            (!text && lever->text.size != 0))
            return bad_record(image, KPK_SECTION_LEVERS, i, "its kind or default is unknown");
    }
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_ABSENTS); i++) {
        const struct kpk_absent_record *absent = &image->absents[i];
        if (!name_ok(image, absent->module) || !name_ok(image, absent->entry) ||
            !string_ok(image, absent->reason))
            return bad_record(image, KPK_SECTION_ABSENTS, i, "a string is out of bounds");
    }
    return KPK_OK;
}

kpk_status kpk_check_index(kpk_image *image)
{
    /* In an order in which each follows only what those before it have checked. */
    static kpk_status (*const checks[])(const kpk_image *) = {
        check_target,  check_modules, check_objects, check_groups,
        check_entries, check_slots,   check_lists,
    };
    kpk_status status = check_sections(image);
    if (status != KPK_OK)
        return status;
    set_tables(image);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == KPK_OK; i++)
        status = checks[i](image);
    return status;
}
