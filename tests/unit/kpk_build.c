#include "kpk_build.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

struct buffer {
    uint8_t *data;
    size_t size;
};

static void grow(struct buffer *buffer, size_t size)
{
    buffer->data = realloc(buffer->data, buffer->size + size + 1);
    if (buffer->data == NULL)
        abort();
    memset(buffer->data + buffer->size, 0, size);
    buffer->size += size;
}

static void add(struct buffer *buffer, const void *bytes, size_t size)
{
    grow(buffer, size);
    if (size > 0)
        memcpy(buffer->data + buffer->size - size, bytes, size);
}

static void digest(const void *bytes, size_t size, uint8_t *out)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out, canonical.digest, KPK_DIGEST_SIZE);
}

struct writer {
    const struct build_image *image;
    struct buffer sections[KPK_SECTION_COUNT];
    struct buffer packed;
    uint64_t raw_bytes;
};

static struct kpk_string string(struct writer *writer, const char *text)
{
    struct buffer *strings = &writer->sections[KPK_SECTION_STRINGS];
    size_t size = text == NULL ? 0 : strlen(text);
    struct kpk_string made = {(uint32_t)strings->size, (uint32_t)size};
    add(strings, text, size);
    add(strings, "", 1);
    return made;
}

static uint32_t count(const struct buffer *buffer, size_t stride)
{
    return (uint32_t)(buffer->size / stride);
}

static void add_entries(struct writer *writer, const struct build_module *module, uint32_t index,
                        uint32_t first_object)
{
    struct buffer *entries = &writer->sections[KPK_SECTION_ENTRIES];
    for (uint32_t i = 0; i < module->entry_count; i++) {
        const struct build_entry *entry = &module->entries[i];
        struct kpk_entry_record record = {
            .name = string(writer, entry->name),
            .twin_of = string(writer, entry->twin_of),
            .module = index,
            .object = first_object + entry->object,
            .dynamic_smem = entry->dynamic_smem,
            .static_smem = entry->static_smem,
            .present = entry->present,
            .twin_bits = entry->twin_bits,
            .registers = 32 + i,
            .code_bytes = 1 + i % 4,
            .symbol = string(writer, entry->symbol),
        };
        memcpy(record.block, entry->block, sizeof(record.block));
        add(entries, &record, sizeof(record));
    }
}

static void add_module(struct writer *writer, const struct build_module *module, uint32_t index)
{
    struct buffer *sections = writer->sections;
    struct kpk_module_record record = {
        .name = string(writer, module->name),
        .source = string(writer, "source.cu"),
        .origin = string(writer, writer->image->target),
        .first_entry = count(&sections[KPK_SECTION_ENTRIES], sizeof(struct kpk_entry_record)),
        .entry_count = module->entry_count,
        .first_object = count(&sections[KPK_SECTION_OBJECTS], sizeof(struct kpk_object_record)),
        .object_count = module->object_count,
        .first_constant =
            count(&sections[KPK_SECTION_CONSTANTS], sizeof(struct kpk_constant_record)),
        .constant_count = module->constant_count,
        .first_flag = count(&sections[KPK_SECTION_FLAGS], sizeof(struct kpk_flag_record)),
        .flag_count = module->flag_count,
    };
    add_entries(writer, module, index, record.first_object);
    for (uint32_t i = 0; i < module->object_count; i++) {
        struct kpk_object_record object = {index, module->objects[i]};
        add(&sections[KPK_SECTION_OBJECTS], &object, sizeof(object));
    }
    for (uint32_t i = 0; i < module->constant_count; i++) {
        struct kpk_constant_record constant = {string(writer, module->constants[i].name),
                                               module->constants[i].value};
        add(&sections[KPK_SECTION_CONSTANTS], &constant, sizeof(constant));
    }
    for (uint32_t i = 0; i < module->flag_count; i++) {
        struct kpk_flag_record flag = {string(writer, module->flags[i])};
        add(&sections[KPK_SECTION_FLAGS], &flag, sizeof(flag));
    }
    add(&sections[KPK_SECTION_MODULES], &record, sizeof(record));
}

static void add_slots(struct writer *writer)
{
    uint32_t entries =
        count(&writer->sections[KPK_SECTION_ENTRIES], sizeof(struct kpk_entry_record));
    uint32_t slot_count = 1;
    while (slot_count < 2 * entries)
        slot_count *= 2;
    if (writer->image->slot_count != 0)
        slot_count = writer->image->slot_count;
    struct buffer *buffer = &writer->sections[KPK_SECTION_SLOTS];
    grow(buffer, slot_count * sizeof(struct kpk_slot));
    struct kpk_slot *slots = (struct kpk_slot *)(void *)buffer->data;
    uint32_t index = 0;
    for (uint32_t m = 0; m < writer->image->module_count; m++) {
        const struct build_module *module = &writer->image->modules[m];
        for (uint32_t i = 0; i < module->entry_count; i++) {
            const char *name = module->entries[i].name;
            uint64_t hash = XXH3_64bits_withSeed(name, strlen(name),
                                                 XXH3_64bits(module->name, strlen(module->name)));
            uint64_t at = hash % slot_count;
            for (uint32_t tries = 1; slots[at].entry != 0 && tries < slot_count; tries++)
                at = (at + 1) % slot_count;
            slots[at].tag = (uint32_t)(hash >> 32);
            slots[at].entry = ++index;
        }
    }
}

static void add_groups(struct writer *writer)
{
    const struct build_image *image = writer->image;
    uint32_t step = image->group_blobs != 0 ? image->group_blobs : image->blob_count;
    for (uint32_t first = 0; first < image->blob_count; first += step) {
        struct buffer raw = {0};
        struct kpk_group_record group = {.first_blob = first};
        uint32_t index =
            count(&writer->sections[KPK_SECTION_GROUPS], sizeof(struct kpk_group_record));
        for (uint32_t b = first; b < image->blob_count && b < first + step; b++) {
            size_t size = strlen(image->blobs[b]) + 1;
            struct kpk_blob_record blob = {.offset = raw.size, .size = size, .group = index};
            digest(image->blobs[b], size, blob.digest);
            add(&writer->sections[KPK_SECTION_BLOBS], &blob, sizeof(blob));
            add(&raw, image->blobs[b], size);
            group.blob_count++;
        }
        size_t room = ZSTD_compressBound(raw.size);
        group.offset = writer->packed.size; /* from the groups' start, until the index is known */
        grow(&writer->packed, room);
        uint8_t *to = writer->packed.data + group.offset;
        ZSTD_CCtx *context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
        group.packed_size = ZSTD_compress2(context, to, room, raw.data, raw.size);
        ZSTD_freeCCtx(context);
        writer->packed.size = group.offset + group.packed_size;
        group.raw_size = raw.size;
        digest(to, group.packed_size, group.digest);
        add(&writer->sections[KPK_SECTION_GROUPS], &group, sizeof(group));
        writer->raw_bytes += raw.size;
        free(raw.data);
    }
}

static void add_lists(struct writer *writer)
{
    const struct build_image *image = writer->image;
    for (uint32_t i = 0; i < image->lever_count; i++) {
        const struct build_lever *lever = &image->levers[i];
        struct kpk_lever_record record = {string(writer, lever->name), string(writer, lever->env),
                                          string(writer, lever->text), lever->kind, lever->on};
        add(&writer->sections[KPK_SECTION_LEVERS], &record, sizeof(record));
    }
    for (uint32_t i = 0; i < image->absent_count; i++) {
        const struct build_absent *absent = &image->absents[i];
        struct kpk_absent_record record = {string(writer, absent->module),
                                           string(writer, absent->entry),
                                           string(writer, absent->reason)};
        add(&writer->sections[KPK_SECTION_ABSENTS], &record, sizeof(record));
    }
}

static void add_target(struct writer *writer)
{
    const struct build_image *image = writer->image;
    struct kpk_target_record target = {
        .name = string(writer, image->target),
        .arch = string(writer, image->arch),
        .stamp = string(writer, NULL),
        .compute_major = image->compute_major,
        .compute_minor = image->compute_minor,
        .min_driver = image->min_driver,
        .sm_count = image->sm_count,
        .nvrtc_major = 13,
        .raw_bytes = writer->raw_bytes,
    };
    for (uint32_t i = 0; i <= image->targets; i++)
        add(&writer->sections[KPK_SECTION_TARGET], &target, sizeof(target));
}

static struct build_bytes assemble(struct writer *writer)
{
    static const uint32_t strides[KPK_SECTION_COUNT] = {
        sizeof(struct kpk_target_record), sizeof(struct kpk_module_record),
        sizeof(struct kpk_entry_record),  sizeof(struct kpk_slot),
        sizeof(struct kpk_object_record), sizeof(struct kpk_blob_record),
        sizeof(struct kpk_group_record),  sizeof(struct kpk_constant_record),
        sizeof(struct kpk_flag_record),   sizeof(struct kpk_lever_record),
        sizeof(struct kpk_absent_record), 1};
    struct kpk_header header = {.kind = KPK_KIND_IMAGE, .section_count = KPK_SECTION_COUNT};
    struct buffer out = {0};
    grow(&out, sizeof(header));
    for (uint32_t id = 0; id < KPK_SECTION_COUNT; id++) {
        grow(&out, (size_t)(-(int64_t)out.size & (KPK_INDEX_ALIGN - 1)));
        header.sections[id] = (struct kpk_section){
            .offset = out.size,
            .size = writer->sections[id].size,
            .count = count(&writer->sections[id], strides[id]),
            .stride = strides[id],
        };
        add(&out, writer->sections[id].data, writer->sections[id].size);
        free(writer->sections[id].data);
    }
    grow(&out, (size_t)(-(int64_t)out.size & (KPK_INDEX_ALIGN - 1)));
    memcpy(header.prefix.magic, KPK_MAGIC, sizeof(header.prefix.magic));
    header.prefix.version = KPK_FORMAT_VERSION;
    header.prefix.header_size = sizeof(header);
    header.prefix.file_size = out.size + writer->packed.size;
    header.index_offset = sizeof(header);
    header.index_size = out.size - sizeof(header);
    memcpy(out.data, &header, sizeof(header));
    add(&out, writer->packed.data, writer->packed.size);
    free(writer->packed.data);
    return (struct build_bytes){out.data, out.size};
}

struct build_bytes build_write(const struct build_image *image)
{
    struct writer writer = {.image = image};
    string(&writer, NULL);
    for (uint32_t i = 0; i < image->module_count; i++)
        add_module(&writer, &image->modules[i], i);
    add_slots(&writer);
    add_groups(&writer);
    add_lists(&writer);
    add_target(&writer);
    struct build_bytes bytes = assemble(&writer);
    const struct kpk_header *header = build_header(&bytes);
    for (uint32_t i = 0; i < header->sections[KPK_SECTION_GROUPS].count; i++) {
        struct kpk_group_record *group = build_record(&bytes, KPK_SECTION_GROUPS, i);
        group->offset += header->index_offset + header->index_size;
    }
    build_seal(&bytes);
    return bytes;
}

/* Letters that do not compress to nothing. */
static char *long_text(const char *start, size_t size, uint32_t seed)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        abort();
    size_t at = strlen(start);
    memcpy(text, start, at);
    text[at++] = ' ';
    for (; at < size; at++) {
        seed = seed * 1664525 + 1013904223;
        text[at] = (char)('a' + (seed >> 28));
    }
    text[size] = '\0';
    return text;
}

struct build_bytes build_write_long(void)
{
    static const size_t sizes[] = {150000, 149999, 150007, 150001};
    char *blobs[4];
    for (uint32_t i = 0; i < 4; i++)
        blobs[i] = long_text(build_small.blobs[i], sizes[i], i);
    struct build_image image = build_small;
    image.blobs = (const char *const *)blobs;
    image.group_blobs = 0;
    struct build_bytes bytes = build_write(&image);
    for (uint32_t i = 0; i < 4; i++)
        free(blobs[i]);
    return bytes;
}

void build_seal_group(struct build_bytes *bytes, uint32_t index)
{
    struct kpk_group_record *group = build_record(bytes, KPK_SECTION_GROUPS, index);
    digest(bytes->data + group->offset, group->packed_size, group->digest);
    build_seal(bytes);
}

void build_seal(struct build_bytes *bytes)
{
    struct kpk_header *header = build_header(bytes);
    if (header->index_offset <= bytes->size &&
        header->index_size <= bytes->size - header->index_offset)
        digest(bytes->data + header->index_offset, header->index_size, header->index_digest);
    digest(header, offsetof(struct kpk_header, header_digest), header->header_digest);
}

struct kpk_header *build_header(struct build_bytes *bytes)
{
    return (struct kpk_header *)(void *)bytes->data;
}

void *build_record(struct build_bytes *bytes, enum kpk_section_id id, uint32_t index)
{
    const struct kpk_section *section = &build_header(bytes)->sections[id];
    return bytes->data + section->offset + (size_t)index * section->stride;
}

static const struct build_entry alpha_entries[] = {
    {.name = "one", .block = {128, 1, 1}, .present = KPK_PRESENT_ALL, .dynamic_smem = 1024},
    {.name = "two",
     .block = {32, 4, 2},
     .present = KPK_PRESENT_ALL,
     .twin_of = "alpha:one",
     .twin_bits = KPK_TWIN_SAME},
};
static const struct build_entry beta_entries[] = {
    {.name = "big",
     .block = {256, 1, 1},
     .present = KPK_PRESENT_ALL,
     .dynamic_smem = 200000,
     .static_smem = 1000},
    {.name = "plain",
     .symbol = "_Z5plaini",
     .object = 1,
     .block = {64, 1, 1},
     .present = KPK_PRESENT_BLOCK},
};
static const struct build_entry gamma_entries[] = {{.name = "bare", .static_smem = 64}};
static const struct build_constant alpha_constants[] = {{"CHUNK", 64}, {"K_DIM", -128}};
static const char *const alpha_flags[] = {"--fmad=false", "-lineinfo"};
static const uint32_t alpha_objects[] = {0}, beta_objects[] = {1, 2}, gamma_objects[] = {3};
static const char *const small_blobs[] = {"FAKE one two", "FAKE big", "FAKE _Z5plaini",
                                          "FAKE bare other"};
static const struct build_module small_modules[] = {
    {"alpha", alpha_entries, 2, alpha_objects, 1, alpha_constants, 2, alpha_flags, 2},
    {"beta", beta_entries, 2, beta_objects, 2, NULL, 0, NULL, 0},
    {"gamma", gamma_entries, 1, gamma_objects, 1, NULL, 0, NULL, 0},
};
static const struct build_lever small_levers[] = {
    {"is1", "KPK_TEST_IS1", NULL, KPK_LEVER_IS1, 0},
    {"presence", "KPK_TEST_PRESENCE", NULL, KPK_LEVER_PRESENCE, 0},
    {"switch", "KPK_TEST_SWITCH", NULL, KPK_LEVER_SWITCH, 1},
    {"text", "KPK_TEST_TEXT", "fallback", KPK_LEVER_TEXT, 0},
};
static const struct build_absent small_absents[] = {
    {"alpha", "gone", "dropped on purpose"},
    {"omega", "never", "no target of this class ships it"},
};

const struct build_image build_small = {
    .target = "small",
    .arch = "sm_90a",
    .compute_major = 9,
    .min_driver = 12040,
    .modules = small_modules,
    .module_count = 3,
    .blobs = small_blobs,
    .blob_count = 4,
    .group_blobs = 2,
    .levers = small_levers,
    .lever_count = 4,
    .absents = small_absents,
    .absent_count = 2,
};
