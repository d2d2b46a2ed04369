#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/digest.h"
#include "base/mem.h"
#include "image/file_digest.h"
#include "image/groups.h"
#include "image/order.h"
#include "image/strtab.h"
#include "image/write.h"
#include "runtime/kpk_format.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied as they lie");

/* A distinct cubin and its place in the file. */
struct blob {
    struct digest digest;
    size_t item;     /* in canonical order: of first use */
    uint32_t record; /* in the blob section */
};

struct writer {
    const struct image *image;
    struct ordered ordered;
    struct arena arena;
    struct strtab strings;
    struct str sections[KPK_SECTION_COUNT];
    struct group_item *items; /* distinct cubins in canonical order */
    size_t item_count;
    size_t *object_items;   /* of each object, in file order */
    uint32_t *item_records; /* of each item, in the blob section */
    struct grouping grouping;
};

static const uint32_t strides[KPK_SECTION_COUNT] = {
    [KPK_SECTION_TARGET] = sizeof(struct kpk_target_record),
    [KPK_SECTION_MODULES] = sizeof(struct kpk_module_record),
    [KPK_SECTION_ENTRIES] = sizeof(struct kpk_entry_record),
    [KPK_SECTION_SLOTS] = sizeof(struct kpk_slot),
    [KPK_SECTION_OBJECTS] = sizeof(struct kpk_object_record),
    [KPK_SECTION_BLOBS] = sizeof(struct kpk_blob_record),
    [KPK_SECTION_GROUPS] = sizeof(struct kpk_group_record),
    [KPK_SECTION_CONSTANTS] = sizeof(struct kpk_constant_record),
    [KPK_SECTION_FLAGS] = sizeof(struct kpk_flag_record),
    [KPK_SECTION_LEVERS] = sizeof(struct kpk_lever_record),
    [KPK_SECTION_ABSENTS] = sizeof(struct kpk_absent_record),
    [KPK_SECTION_STRINGS] = 1,
};

static void add_record(struct writer *writer, enum kpk_section_id section, const void *record)
{
    str_add(&writer->sections[section], record, strides[section]);
}

/* ---- Cubins ------------------------------------------------------------------------------------
 */

static int by_digest(const void *a, const void *b)
{
    const struct blob *x = a, *y = b;
    int order = memcmp(x->digest.bytes, y->digest.bytes, DIGEST_SIZE);
    return order ? order : (x->item > y->item) - (x->item < y->item);
}

/* Finds equal cubins: items are the distinct ones, by first use in file order. */
static void fold(struct writer *writer)
{
    size_t count = writer->ordered.object_count;
    struct blob *blobs = arena_alloc(&writer->arena, count, sizeof *blobs);
    const struct image_object **objects = arena_alloc(&writer->arena, count, sizeof *objects);
    size_t at = 0;
    for (size_t m = 0; m < writer->image->module_count; m++) {
        const struct ordered_module *module = &writer->ordered.modules[m];
        for (size_t i = 0; i < module->in->object_count; i++, at++) {
            objects[at] = &module->in->objects[module->objects[i]];
            struct digest_state state;
            digest_start(&state);
            digest_add(&state, objects[at]->cubin, objects[at]->size);
            blobs[at] = (struct blob){.digest = digest_finish(&state), .item = at};
        }
    }
    if (count)
        qsort(blobs, count, sizeof *blobs, by_digest);
    size_t *first = arena_alloc(&writer->arena, count, sizeof *first);
    for (size_t i = 0; i < count; i++) {
        bool same = i && memcmp(&blobs[i].digest, &blobs[i - 1].digest, DIGEST_SIZE) == 0;
        first[blobs[i].item] = same ? first[blobs[i - 1].item] : blobs[i].item;
    }
    writer->items = arena_alloc(&writer->arena, count, sizeof *writer->items);
    writer->object_items = arena_alloc(&writer->arena, count, sizeof *writer->object_items);
    for (size_t i = 0; i < count; i++) {
        if (first[i] != i) {
            writer->object_items[i] = writer->object_items[first[i]];
            continue;
        }
        writer->object_items[i] = writer->item_count;
        writer->items[writer->item_count++] =
            (struct group_item){objects[i]->cubin, objects[i]->size};
    }
}

static void add_blobs(struct writer *writer)
{
    const struct grouping *grouping = &writer->grouping;
    writer->item_records =
        arena_alloc(&writer->arena, writer->item_count, sizeof *writer->item_records);
    uint32_t record = 0;
    for (size_t g = 0; g < grouping->count; g++) {
        uint64_t offset = 0;
        for (size_t i = 0; i < grouping->groups[g].count; i++, record++) {
            size_t item = grouping->order[record];
            struct kpk_blob_record blob = {
                .offset = offset, .size = writer->items[item].size, .group = (uint32_t)g};
            file_digest(writer->items[item].bytes, writer->items[item].size, blob.digest);
            add_record(writer, KPK_SECTION_BLOBS, &blob);
            writer->item_records[item] = record;
            offset += blob.size;
        }
    }
}

static void add_groups(struct writer *writer, uint64_t offset)
{
    for (size_t g = 0; g < writer->grouping.count; g++) {
        const struct group *group = &writer->grouping.groups[g];
        struct kpk_group_record record = {
            .offset = offset,
            .packed_size = group->packed_size,
            .raw_size = group->raw_size,
            .first_blob = (uint32_t)group->first,
            .blob_count = (uint32_t)group->count,
        };
        file_digest(group->packed, group->packed_size, record.digest);
        add_record(writer, KPK_SECTION_GROUPS, &record);
        offset += group->packed_size;
    }
}

/* ---- Records -----------------------------------------------------------------------------------
 */

static struct kpk_string text(struct writer *writer, const char *bytes)
{
    return strtab_add(&writer->strings, bytes);
}

static void add_target(struct writer *writer, uint64_t raw_bytes)
{
    const struct image *image = writer->image;
    struct kpk_target_record record = {
        .name = text(writer, image->target),
        .arch = text(writer, image->arch),
        .stamp = text(writer, image->stamp),
        .compute_major = image->compute_major,
        .compute_minor = image->compute_minor,
        .min_driver = image->min_driver,
        .nvrtc_major = image->nvrtc_major,
        .nvrtc_minor = image->nvrtc_minor,
        .sm_count = image->sm_count,
        .smem_optin = image->smem_optin,
        .raw_bytes = raw_bytes,
    };
    add_record(writer, KPK_SECTION_TARGET, &record);
}

static void add_entry(struct writer *writer, const struct image_entry *entry, uint32_t module,
                      uint32_t object)
{
    bool has_symbol = entry->symbol && strcmp(entry->symbol, entry->name) != 0;
    struct kpk_entry_record record = {
        .name = text(writer, entry->name),
        .twin_of = text(writer, entry->twin_of),
        .module = module,
        .object = object,
        .static_smem = entry->static_smem,
        .registers = entry->registers,
        .stack_bytes = entry->stack_bytes,
        .present = entry->present,
        .twin_bits = entry->twin_bits,
        .code_bytes = entry->code_bytes,
        .symbol = text(writer, has_symbol ? entry->symbol : NULL),
    };
    if (entry->present & KPK_PRESENT_BLOCK)
        memcpy(record.block, entry->block, sizeof record.block);
    if (entry->present & KPK_PRESENT_DYNAMIC_SMEM)
        record.dynamic_smem = entry->dynamic_smem;
    if (entry->present & KPK_PRESENT_SPILL)
        record.spill_bytes = entry->spill_bytes;
    add_record(writer, KPK_SECTION_ENTRIES, &record);
}

static void add_lists(struct writer *writer, const struct ordered_module *module)
{
    for (size_t i = 0; i < module->in->constant_count; i++) {
        struct kpk_constant_record record = {text(writer, module->constants[i]->name),
                                             module->constants[i]->value};
        add_record(writer, KPK_SECTION_CONSTANTS, &record);
    }
    for (size_t i = 0; i < module->in->flag_count; i++) {
        struct kpk_flag_record record = {text(writer, module->in->flags[i])};
        add_record(writer, KPK_SECTION_FLAGS, &record);
    }
}

static void add_modules(struct writer *writer)
{
    struct kpk_module_record next = {0};
    for (uint32_t m = 0; m < writer->image->module_count; m++) {
        const struct ordered_module *module = &writer->ordered.modules[m];
        struct kpk_module_record record = next;
        record.name = text(writer, module->in->name);
        record.source = text(writer, module->in->source);
        record.origin = text(writer, module->in->origin);
        record.entry_count = (uint32_t)module->in->entry_count;
        record.object_count = (uint32_t)module->in->object_count;
        record.constant_count = (uint32_t)module->in->constant_count;
        record.flag_count = (uint32_t)module->in->flag_count;

        struct digest_state state;
        digest_start(&state);
        for (uint32_t i = 0; i < record.object_count; i++) {
            size_t item = writer->object_items[record.first_object + i];
            digest_add(&state, writer->items[item].bytes, writer->items[item].size);
            struct kpk_object_record object = {m, writer->item_records[item]};
            add_record(writer, KPK_SECTION_OBJECTS, &object);
        }
        struct digest digest = digest_finish(&state);
        memcpy(record.digest, digest.bytes, sizeof record.digest);
        add_record(writer, KPK_SECTION_MODULES, &record);

        for (uint32_t i = 0; i < record.entry_count; i++) {
            const struct image_entry *entry = module->entries[i];
            add_entry(writer, entry, m,
                      record.first_object + (uint32_t)module->places[entry->object]);
        }
        add_lists(writer, module);
        next.first_entry = record.first_entry + record.entry_count;
        next.first_object = record.first_object + record.object_count;
        next.first_constant = record.first_constant + record.constant_count;
        next.first_flag = record.first_flag + record.flag_count;
    }
}

static void add_slots(struct writer *writer)
{
    size_t count = 1;
    /* At most three quarters full: fewer bytes for every open to read and check. */
    while (3 * count < 4 * writer->ordered.entry_count || count <= writer->ordered.entry_count)
        count *= 2;
    struct kpk_slot *slots = mem_alloc(count, sizeof *slots);
    uint32_t index = 0;
    for (size_t m = 0; m < writer->image->module_count; m++) {
        const struct ordered_module *module = &writer->ordered.modules[m];
        XXH64_hash_t seed = XXH3_64bits(module->in->name, strlen(module->in->name));
        for (size_t i = 0; i < module->in->entry_count; i++) {
            const char *name = module->entries[i]->name;
            uint64_t hash = XXH3_64bits_withSeed(name, strlen(name), seed);
            size_t at = hash & (count - 1);
            while (slots[at].entry)
                at = (at + 1) & (count - 1);
            slots[at] = (struct kpk_slot){(uint32_t)(hash >> 32), ++index};
        }
    }
    str_add(&writer->sections[KPK_SECTION_SLOTS], slots, count * sizeof *slots);
    free(slots);
}

static void add_levers_and_absents(struct writer *writer)
{
    for (size_t i = 0; i < writer->image->lever_count; i++) {
        const struct image_lever *lever = writer->ordered.levers[i];
        bool is_text = lever->kind == KPK_LEVER_TEXT;
        struct kpk_lever_record record = {
            .name = text(writer, lever->name),
            .env = text(writer, lever->env),
            .text = text(writer, is_text ? lever->text : NULL),
            .kind = lever->kind,
            .on = !is_text && lever->on,
        };
        add_record(writer, KPK_SECTION_LEVERS, &record);
    }
    for (size_t i = 0; i < writer->image->absent_count; i++) {
        const struct image_absent *absent = writer->ordered.absents[i];
        struct kpk_absent_record record = {text(writer, absent->module),
                                           text(writer, absent->entry),
                                           text(writer, absent->reason)};
        add_record(writer, KPK_SECTION_ABSENTS, &record);
    }
}

/* ---- The file ----------------------------------------------------------------------------------
 */

static uint64_t align(uint64_t offset)
{
    return (offset + KPK_INDEX_ALIGN - 1) / KPK_INDEX_ALIGN * KPK_INDEX_ALIGN;
}

/* Places the sections and returns the index's end. The groups' records are not made yet. */
static uint64_t place_sections(struct writer *writer, struct kpk_header *header)
{
    uint64_t offset = sizeof *header;
    for (size_t i = 0; i < KPK_SECTION_COUNT; i++) {
        uint64_t size = i == KPK_SECTION_GROUPS
                            ? writer->grouping.count * sizeof(struct kpk_group_record)
                            : writer->sections[i].len;
        offset = align(offset);
        header->sections[i] = (struct kpk_section){
            .offset = offset,
            .size = size,
            .count = (uint32_t)(size / strides[i]),
            .stride = strides[i],
        };
        offset += size;
    }
    return offset;
}

static void assemble(struct writer *writer, struct str *out)
{
    struct kpk_header header = {.kind = KPK_KIND_IMAGE, .section_count = KPK_SECTION_COUNT};
    memcpy(header.prefix.magic, KPK_MAGIC, sizeof header.prefix.magic);
    header.prefix.version = KPK_FORMAT_VERSION;
    header.prefix.header_size = sizeof header;
    header.index_offset = sizeof header;
    uint64_t end = place_sections(writer, &header);
    header.index_size = end - header.index_offset;
    add_groups(writer, end);
    header.prefix.file_size = end;
    for (size_t g = 0; g < writer->grouping.count; g++)
        header.prefix.file_size += writer->grouping.groups[g].packed_size;

    size_t base = out->len;
    static const char zeros[KPK_INDEX_ALIGN];
    str_add(out, &header, sizeof header);
    for (size_t i = 0; i < KPK_SECTION_COUNT; i++) {
        str_add(out, zeros, header.sections[i].offset - (out->len - base));
        str_add(out, writer->sections[i].data, writer->sections[i].len);
    }
    file_digest(out->data + base + sizeof header, header.index_size, header.index_digest);
    file_digest(&header, offsetof(struct kpk_header, header_digest), header.header_digest);
    memcpy(out->data + base, &header, sizeof header);
    for (size_t g = 0; g < writer->grouping.count; g++)
        str_add(out, writer->grouping.groups[g].packed, writer->grouping.groups[g].packed_size);
}

static bool check_count(const char *what, uint64_t found, uint64_t limit, struct diags *diags)
{
    if (found <= limit)
        return true;
    return diag_error(diags, "an image cannot hold %llu %s: the format allows %llu",
                      (unsigned long long)found, what, (unsigned long long)limit);
}

static bool check_counts(const struct writer *writer, const struct image_limits *limits,
                         struct diags *diags)
{
    const struct ordered *ordered = &writer->ordered;
    return check_count("modules", writer->image->module_count, limits->records, diags) &&
           check_count("entries", ordered->entry_count, limits->entries, diags) &&
           check_count("cubins", ordered->object_count, limits->records, diags) &&
           check_count("constants", ordered->constant_count, limits->records, diags) &&
           check_count("flags", ordered->flag_count, limits->records, diags) &&
           check_count("levers", writer->image->lever_count, limits->records, diags) &&
           check_count("absences", writer->image->absent_count, limits->records, diags);
}

static bool check_cubins(const struct image *image, uint64_t limit, struct diags *diags)
{
    size_t errors = diags->errors;
    for (size_t m = 0; m < image->module_count; m++)
        for (size_t i = 0; i < image->modules[m].object_count; i++) {
            size_t size = image->modules[m].objects[i].size;
            if (size > limit)
                diag_error(diags, "module '%s' has a cubin of %zu bytes: the format allows %llu",
                           image->modules[m].name, size, (unsigned long long)limit);
        }
    return diags->errors == errors;
}

static bool write_all(struct writer *writer, size_t group_cap, const struct image_limits *limits,
                      struct str *out, struct image_stats *out_stats, struct diags *diags)
{
    if (!order_image(writer->image, &writer->arena, &writer->ordered, diags) ||
        !check_counts(writer, limits, diags) ||
        !check_cubins(writer->image, limits->cubin_bytes, diags))
        return false;
    if (!group_cap)
        group_cap = IMAGE_GROUP_CAP;
    if (group_cap > limits->cubin_bytes)
        group_cap = limits->cubin_bytes;
    fold(writer);
    uint64_t raw_bytes = 0;
    for (size_t i = 0; i < writer->item_count; i++)
        raw_bytes += writer->items[i].size;
    groups_plan(writer->items, writer->item_count, group_cap, &writer->grouping);
    add_blobs(writer);
    add_target(writer, raw_bytes);
    add_modules(writer);
    add_slots(writer);
    add_levers_and_absents(writer);
    if (writer->strings.full)
        return diag_error(diags, "an image cannot hold so many names: the format allows %llu bytes",
                          (unsigned long long)limits->string_bytes);
    writer->sections[KPK_SECTION_STRINGS] = writer->strings.bytes;
    writer->strings.bytes = (struct str){0};
    if (!groups_pack(writer->items, &writer->grouping, diags))
        return false;
    size_t base = out->len;
    assemble(writer, out);
    *out_stats = (struct image_stats){
        .raw_bytes = raw_bytes,
        .file_bytes = out->len - base,
        .groups = writer->grouping.count,
        .blobs = writer->item_count,
    };
    return true;
}

bool image_write_limited(const struct image *image, size_t group_cap,
                         const struct image_limits *limits, struct str *out,
                         struct image_stats *out_stats, struct diags *diags)
{
    *out_stats = (struct image_stats){0};
    struct writer writer = {.image = image};
    strtab_start(&writer.strings, limits->string_bytes);
    bool ok = write_all(&writer, group_cap, limits, out, out_stats, diags);
    for (size_t i = 0; i < KPK_SECTION_COUNT; i++)
        str_free(&writer.sections[i]);
    strtab_free(&writer.strings);
    groups_free(&writer.grouping);
    arena_free(&writer.arena);
    return ok;
}

bool image_write(const struct image *image, size_t group_cap, struct str *out,
                 struct image_stats *out_stats, struct diags *diags)
{
    static const struct image_limits limits = {
        .string_bytes = UINT32_MAX,
        .records = UINT32_MAX - 1,
        .entries = 1u << 30,
        .cubin_bytes = KPK_GROUP_RAW_LIMIT,
    };
    return image_write_limited(image, group_cap, &limits, out, out_stats, diags);
}
