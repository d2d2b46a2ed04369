#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "base/digest.h"
#include "image/image.h"
#include "image/write.h"
#include "image_sample.h"

/* What a reader sees: pointers into the file's bytes. */
struct view {
    const char *bytes;
    size_t size;
    const struct kpk_header *header;
};

static struct view view_of(const struct str *file)
{
    assert_true(file->len >= sizeof(struct kpk_header));
    return (struct view){file->data, file->len, (const struct kpk_header *)file->data};
}

static const void *record(const struct view *view, enum kpk_section_id section, uint32_t index)
{
    const struct kpk_section *at = &view->header->sections[section];
    assert_true(index < at->count);
    return view->bytes + at->offset + (size_t)index * at->stride;
}

static uint32_t count(const struct view *view, enum kpk_section_id section)
{
    return view->header->sections[section].count;
}

static const char *text(const struct view *view, struct kpk_string string)
{
    const struct kpk_section *at = &view->header->sections[KPK_SECTION_STRINGS];
    assert_true((uint64_t)string.offset + string.size < at->size);
    const char *bytes = view->bytes + at->offset + string.offset;
    assert_int_equal(strlen(bytes), string.size);
    return bytes;
}

static void assert_digest(const void *bytes, size_t size, const uint8_t *digest)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    assert_memory_equal(canonical.digest, digest, KPK_DIGEST_SIZE);
}

/* The blob's bytes; the caller frees them. */
static char *read_blob(const struct view *view, uint32_t index)
{
    const struct kpk_blob_record *blob = record(view, KPK_SECTION_BLOBS, index);
    const struct kpk_group_record *group = record(view, KPK_SECTION_GROUPS, blob->group);
    char *raw = malloc(group->raw_size);
    assert_int_equal(
        ZSTD_decompress(raw, group->raw_size, view->bytes + group->offset, group->packed_size),
        group->raw_size);
    char *cubin = malloc(blob->size);
    memcpy(cubin, raw + blob->offset, blob->size);
    free(raw);
    return cubin;
}

static uint32_t lookup(const struct view *view, const char *module, const char *entry)
{
    uint32_t mask = count(view, KPK_SECTION_SLOTS) - 1;
    uint64_t hash = XXH3_64bits_withSeed(entry, strlen(entry), XXH3_64bits(module, strlen(module)));
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        const struct kpk_slot *slot = record(view, KPK_SECTION_SLOTS, at);
        if (!slot->entry)
            return KPK_NONE;
        if (slot->tag != hash >> 32)
            continue;
        const struct kpk_entry_record *found = record(view, KPK_SECTION_ENTRIES, slot->entry - 1);
        const struct kpk_module_record *in = record(view, KPK_SECTION_MODULES, found->module);
        if (!strcmp(text(view, found->name), entry) && !strcmp(text(view, in->name), module))
            return slot->entry - 1;
    }
}

static void check_layout(const struct view *view)
{
    const struct kpk_header *header = view->header;
    assert_memory_equal(header->prefix.magic, KPK_MAGIC, 8);
    assert_int_equal(header->prefix.version, 1);
    assert_int_equal(header->prefix.header_size, sizeof *header);
    assert_int_equal(header->prefix.file_size, view->size);
    assert_int_equal(header->kind, KPK_KIND_IMAGE);
    assert_int_equal(header->section_count, KPK_SECTION_COUNT);
    assert_int_equal(header->index_offset, sizeof *header);
    assert_digest(header, offsetof(struct kpk_header, header_digest), header->header_digest);
    assert_digest(view->bytes + header->index_offset, header->index_size, header->index_digest);
    static const uint8_t zeros[16];
    assert_memory_equal(header->reserved, zeros, 16);
    uint64_t at = header->index_offset;
    for (int i = 0; i < KPK_SECTION_COUNT; i++) {
        const struct kpk_section *section = &header->sections[i];
        assert_true(section->offset >= at && section->offset < at + KPK_INDEX_ALIGN);
        assert_int_equal(section->offset % KPK_INDEX_ALIGN, 0);
        assert_int_equal(section->size, (uint64_t)section->count * section->stride);
        for (; at < section->offset; at++)
            assert_int_equal(view->bytes[at], 0);
        at += section->size;
    }
    assert_int_equal(at, header->index_offset + header->index_size);
    for (uint32_t i = 0; i < count(view, KPK_SECTION_GROUPS); i++) {
        const struct kpk_group_record *group = record(view, KPK_SECTION_GROUPS, i);
        assert_int_equal(group->offset, at);
        assert_digest(view->bytes + at, group->packed_size, group->digest);
        assert_int_equal(ZSTD_getFrameContentSize(view->bytes + at, group->packed_size),
                         group->raw_size);
        at += group->packed_size;
    }
    assert_int_equal(at, view->size);
}

static void check_blobs(const struct view *view, size_t cap)
{
    uint32_t group = KPK_NONE;
    uint64_t offset = 0, total = 0;
    for (uint32_t i = 0; i < count(view, KPK_SECTION_BLOBS); i++) {
        const struct kpk_blob_record *blob = record(view, KPK_SECTION_BLOBS, i);
        if (blob->group != group) {
            assert_int_equal(blob->group, group + 1);
            group = blob->group;
            offset = 0;
        }
        const struct kpk_group_record *in = record(view, KPK_SECTION_GROUPS, group);
        assert_true(in->raw_size <= cap || in->blob_count == 1);
        assert_true(i >= in->first_blob && i < in->first_blob + in->blob_count);
        assert_int_equal(blob->offset, offset);
        offset += blob->size;
        total += blob->size;
        if (i + 1 == in->first_blob + in->blob_count)
            assert_int_equal(offset, in->raw_size);
        char *cubin = read_blob(view, i);
        assert_digest(cubin, blob->size, blob->digest);
        free(cubin);
    }
    const struct kpk_target_record *target = record(view, KPK_SECTION_TARGET, 0);
    assert_int_equal(target->raw_bytes, total);
}

static struct str write_image(const struct image *image, size_t cap, struct image_stats *out_stats)
{
    struct str out = {0};
    struct diags diags = {0};
    if (!image_write(image, cap, &out, out_stats, &diags))
        fail_msg("%s", diags.items[0].message);
    assert_int_equal(diags.count, 0);
    diag_free(&diags);
    assert_int_equal(out_stats->file_bytes, out.len);
    struct view view = view_of(&out);
    check_layout(&view);
    check_blobs(&view, cap ? cap : IMAGE_GROUP_CAP);
    assert_int_equal(count(&view, KPK_SECTION_BLOBS), out_stats->blobs);
    assert_int_equal(count(&view, KPK_SECTION_GROUPS), out_stats->groups);
    return out;
}

static void test_sample(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 0, &stats);
    struct view view = view_of(&file);
    assert_int_equal(stats.blobs, 3);
    assert_int_equal(stats.groups, 1);
    assert_int_equal(stats.raw_bytes, 2 * SAMPLE_CUBIN + SAMPLE_CUBIN / 2);

    assert_int_equal(lookup(&view, "alpha", "add"), 0);
    assert_int_equal(lookup(&view, "alpha", "scale"), 1);
    assert_int_equal(lookup(&view, "beta", "add"), 2);
    assert_int_equal(lookup(&view, "beta", "scale_x2"), 3);
    assert_int_equal(lookup(&view, "beta", "sub_\xc3\xa9"), 4);
    assert_int_equal(lookup(&view, "alpha", "scale_x2"), KPK_NONE);
    assert_int_equal(count(&view, KPK_SECTION_SLOTS), 8);

    const struct kpk_module_record *alpha = record(&view, KPK_SECTION_MODULES, 0);
    assert_string_equal(text(&view, alpha->origin), "base");
    assert_int_equal(alpha->constant_count, 3);
    const struct kpk_constant_record *wide = record(&view, KPK_SECTION_CONSTANTS, 2);
    assert_string_equal(text(&view, wide->name), "WIDE");
    assert_true(wide->value == INT64_MIN);
    const struct kpk_entry_record *scale = record(&view, KPK_SECTION_ENTRIES, 1);
    assert_int_equal(scale->present, KPK_PRESENT_ALL);
    assert_int_equal(scale->block[1], 2);
    assert_int_equal(scale->dynamic_smem, 49152);
    assert_int_equal(scale->spill_bytes, 24);
    const struct kpk_entry_record *twin = record(&view, KPK_SECTION_ENTRIES, 3);
    assert_string_equal(text(&view, twin->twin_of), "alpha:scale");
    assert_string_equal(text(&view, twin->symbol), "_Z5scaleILi2EEvPf");
    assert_string_equal(text(&view, scale->symbol), "");
    assert_int_equal(twin->twin_bits, KPK_TWIN_CLOSE);
    const struct kpk_lever_record *mode = record(&view, KPK_SECTION_LEVERS, 2);
    assert_string_equal(text(&view, mode->name), "mode");
    assert_string_equal(text(&view, mode->text), "auto");
    const struct kpk_absent_record *absent = record(&view, KPK_SECTION_ABSENTS, 0);
    assert_string_equal(text(&view, absent->module), "alpha");
    str_free(&file);
    free(s);
}

/* Equal cubins, within a module and across, become one blob; their objects stay apart. */
static void test_folding(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 0, &stats);
    struct view view = view_of(&file);
    assert_int_equal(count(&view, KPK_SECTION_OBJECTS), 5);
    const struct kpk_object_record *objects = record(&view, KPK_SECTION_OBJECTS, 0);
    const struct kpk_module_record *gamma = record(&view, KPK_SECTION_MODULES, 2);
    assert_int_equal(gamma->entry_count, 0);
    assert_int_equal(objects[gamma->first_object].blob, objects[0].blob);
    const struct kpk_entry_record *add = record(&view, KPK_SECTION_ENTRIES, 2);
    const struct kpk_entry_record *sub = record(&view, KPK_SECTION_ENTRIES, 4);
    assert_int_not_equal(add->object, sub->object);
    assert_int_equal(objects[add->object].blob, objects[sub->object].blob);
    char *cubin = read_blob(&view, objects[add->object].blob);
    assert_memory_equal(cubin, s->beta_two, sizeof s->beta_two);
    free(cubin);

    const struct kpk_module_record *beta = record(&view, KPK_SECTION_MODULES, 1);
    struct digest_state digest_state;
    digest_start(&digest_state);
    digest_add(&digest_state, s->beta_two, sizeof s->beta_two);
    digest_add(&digest_state, s->beta_one, sizeof s->beta_one);
    digest_add(&digest_state, s->beta_two, sizeof s->beta_two);
    struct digest digest = digest_finish(&digest_state);
    assert_memory_equal(beta->digest, digest.bytes, DIGEST_SIZE);
    str_free(&file);
    free(s);
}

static void reverse(void *items, size_t n, size_t stride)
{
    char spare[256];
    assert_true(stride <= sizeof spare);
    for (size_t i = 0; i < n / 2; i++) {
        char *a = (char *)items + i * stride, *b = (char *)items + (n - 1 - i) * stride;
        memcpy(spare, a, stride);
        memcpy(a, b, stride);
        memcpy(b, spare, stride);
    }
}
#define REVERSE(array) reverse(array, sizeof(array) / sizeof *(array), sizeof *(array))

static void test_any_input_order(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 4096, &stats);
    REVERSE(s->modules);
    REVERSE(s->alpha_entries);
    REVERSE(s->beta_entries);
    REVERSE(s->constants);
    REVERSE(s->levers);
    REVERSE(s->absents);
    REVERSE(s->beta_objects);
    for (size_t i = 0; i < 3; i++)
        s->beta_entries[i].object = 2 - s->beta_entries[i].object;
    struct str again = write_image(&s->image, 4096, &stats);
    assert_int_equal(file.len, again.len);
    assert_memory_equal(file.data, again.data, file.len);
    str_free(&file);
    str_free(&again);
    free(s);
}

/* Fields whose present bit is clear do not reach the file. */
static void test_undeclared_fields(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 0, &stats);
    s->alpha_entries[1].block[0] = 7;
    s->alpha_entries[1].dynamic_smem = 8;
    s->alpha_entries[1].spill_bytes = 9;
    s->levers[0].text = "unused";
    s->levers[3].on = true;
    struct str again = write_image(&s->image, 0, &stats);
    assert_int_equal(file.len, again.len);
    assert_memory_equal(file.data, again.data, file.len);
    str_free(&file);
    str_free(&again);
    free(s);
}

static void test_group_cap(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, SAMPLE_CUBIN, &stats);
    assert_int_equal(stats.groups, 3);
    str_free(&file);
    file = write_image(&s->image, 1, &stats);
    assert_int_equal(stats.groups, 3);
    str_free(&file);
    file = write_image(&s->image, 2 * SAMPLE_CUBIN, &stats);
    assert_int_equal(stats.groups, 2);
    str_free(&file);
    free(s);
}

/* Twins share a group with their parent, whatever their names and however they are listed. */
static void test_twins_share_a_group(void **state)
{
    (void)state;
    enum {
        FAMILIES = 4,
        TWINS = 4,
        SIZE = 16 * 1024,
    };
    static uint8_t cubins[FAMILIES * TWINS][SIZE];
    static char names[FAMILIES * TWINS][8];
    struct image_object objects[FAMILIES * TWINS];
    struct image_module modules[FAMILIES * TWINS];
    for (uint32_t i = 0; i < FAMILIES * TWINS; i++) {
        sample_noise(cubins[i], SIZE, 1 + i % FAMILIES);
        sample_noise(cubins[i] + i / FAMILIES * 2048, 4096, 100 + i);
        snprintf(names[i], sizeof names[i], "m%02u", i);
        objects[i] = (struct image_object){cubins[i], SIZE};
        modules[i] =
            (struct image_module){.name = names[i], .objects = &objects[i], .object_count = 1};
    }
    struct image image = {
        .target = "twins", .arch = "sm_90a", .modules = modules, .module_count = FAMILIES * TWINS};
    struct image_stats stats;
    struct str file = write_image(&image, TWINS * SIZE, &stats);
    assert_int_equal(stats.groups, FAMILIES);
    struct view view = view_of(&file);
    for (uint32_t i = 0; i < FAMILIES * TWINS; i++) {
        const struct kpk_object_record *object = record(&view, KPK_SECTION_OBJECTS, i);
        const struct kpk_object_record *parent = record(&view, KPK_SECTION_OBJECTS, i % FAMILIES);
        const struct kpk_blob_record *blob = record(&view, KPK_SECTION_BLOBS, object->blob);
        const struct kpk_blob_record *first = record(&view, KPK_SECTION_BLOBS, parent->blob);
        assert_int_equal(blob->group, first->group);
    }
    reverse(modules, FAMILIES * TWINS, sizeof *modules);
    struct str again = write_image(&image, TWINS * SIZE, &stats);
    assert_int_equal(file.len, again.len);
    assert_memory_equal(file.data, again.data, file.len);
    str_free(&again);
    /* Each twin is new by a quarter and by what its parent's twins hid. */
    assert_true(file.len < stats.raw_bytes / 2 + 8192);
    str_free(&file);
}

/* Cubins by ascending size within a group: the smaller cost the less to decode. */
static void test_small_cubins_first(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 0, &stats);
    struct view view = view_of(&file);
    const struct kpk_blob_record *blobs = record(&view, KPK_SECTION_BLOBS, 0);
    assert_int_equal(blobs[0].size, SAMPLE_CUBIN / 2);
    assert_int_equal(blobs[1].size, SAMPLE_CUBIN);
    str_free(&file);
    free(s);
}

/* A block ends with each of a group's cubins: whoever wants one decodes nothing behind it. */
static void test_blocks_end_with_cubins(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct image_stats stats;
    struct str file = write_image(&s->image, 0, &stats);
    struct view view = view_of(&file);
    const struct kpk_group_record *group = record(&view, KPK_SECTION_GROUPS, 0);
    assert_int_equal(stats.groups, 1);
    char *raw = malloc(group->raw_size);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_outBuffer out = {raw, group->raw_size, 0};
    size_t wanted = ZSTD_initDStream(context), taken = 0;
    for (uint32_t i = 0; i < group->blob_count; i++) {
        const struct kpk_blob_record *blob = record(&view, KPK_SECTION_BLOBS, i);
        while (out.pos < blob->offset + blob->size) {
            ZSTD_inBuffer in = {view.bytes + group->offset + taken, wanted, 0};
            wanted = ZSTD_decompressStream(context, &out, &in);
            assert_false(ZSTD_isError(wanted));
            taken += in.pos;
        }
        assert_int_equal(out.pos, blob->offset + blob->size);
    }
    ZSTD_freeDCtx(context);
    free(raw);
    str_free(&file);
    free(s);
}

static void test_no_modules(void **state)
{
    (void)state;
    struct image image = {.target = "empty", .arch = "sm_90a"};
    struct image_stats stats;
    struct str file = write_image(&image, 0, &stats);
    struct view view = view_of(&file);
    assert_int_equal(count(&view, KPK_SECTION_MODULES), 0);
    assert_int_equal(count(&view, KPK_SECTION_SLOTS), 1);
    assert_int_equal(lookup(&view, "any", "thing"), KPK_NONE);
    assert_int_equal(stats.raw_bytes, 0);
    assert_int_equal(stats.groups, 0);
    str_free(&file);
}

static void test_many_entries(void **state)
{
    (void)state;
    enum {
        MODULES = 100,
        ENTRIES = 100,
    };
    static char names[MODULES][ENTRIES][24], modules[MODULES][24];
    static uint8_t cubins[MODULES][400];
    static struct image_entry entries[MODULES][ENTRIES];
    static struct image_object objects[MODULES];
    static struct image_module list[MODULES];
    for (uint32_t m = 0; m < MODULES; m++) {
        sample_noise(cubins[m], sizeof cubins[m], m + 1);
        snprintf(modules[m], sizeof modules[m], "module_%u", m);
        objects[m] = (struct image_object){cubins[m], sizeof cubins[m]};
        for (uint32_t e = 0; e < ENTRIES; e++) {
            snprintf(names[m][e], sizeof names[m][e], "entry_%u", m * 7 + e);
            entries[m][e] = (struct image_entry){.name = names[m][e], .code_bytes = m};
        }
        list[m] = (struct image_module){.name = modules[m],
                                        .entries = entries[m],
                                        .entry_count = ENTRIES,
                                        .objects = &objects[m],
                                        .object_count = 1};
    }
    struct image image = {
        .target = "many", .arch = "sm_90a", .modules = list, .module_count = MODULES};
    struct image_stats stats;
    struct str file = write_image(&image, 0, &stats);
    struct view view = view_of(&file);
    assert_int_equal(count(&view, KPK_SECTION_ENTRIES), MODULES * ENTRIES);
    assert_int_equal(count(&view, KPK_SECTION_SLOTS), 16384);
    for (uint32_t m = 0; m < MODULES; m++)
        for (uint32_t e = 0; e < ENTRIES; e++) {
            uint32_t found = lookup(&view, modules[m], names[m][e]);
            assert_int_not_equal(found, KPK_NONE);
            const struct kpk_entry_record *entry = record(&view, KPK_SECTION_ENTRIES, found);
            assert_int_equal(entry->code_bytes, m);
        }
    assert_int_equal(lookup(&view, "module_0", "entry_700"), KPK_NONE);
    /* Names are stored once: 793 of entries, 100 of modules. */
    assert_true(view.header->sections[KPK_SECTION_STRINGS].size < 12 * (793 + 100 + 10));
    str_free(&file);
}

/* Writes an image that must be refused, and returns whether the first message is `expected`. */
static void assert_refused(const struct image *image, const struct image_limits *limits,
                           const char *expected)
{
    struct str out = {0};
    struct diags diags = {0};
    struct image_stats stats;
    bool ok = limits ? image_write_limited(image, 0, limits, &out, &stats, &diags)
                     : image_write(image, 0, &out, &stats, &diags);
    assert_false(ok);
    assert_true(diags.errors >= 1);
    assert_string_equal(diags.items[0].message, expected);
    assert_int_equal(out.len, 0);
    assert_int_equal(stats.file_bytes, 0);
    str_free(&out);
    diag_free(&diags);
}

static void test_bad_names(void **state)
{
    (void)state;
    struct sample *s = sample_new();
#define REFUSED(change, message)                                                                   \
    do {                                                                                           \
        change;                                                                                    \
        assert_refused(&s->image, NULL, message);                                                  \
        free(s);                                                                                   \
        s = sample_new();                                                                          \
    } while (0)
    REFUSED(s->modules[1].name = "alpha", "module 'alpha' is listed twice");
    REFUSED(s->alpha_entries[1].name = "scale", "entry 'scale' is listed twice in module alpha");
    REFUSED(s->constants[1].name = "WIDE", "constant 'WIDE' is listed twice in module alpha");
    REFUSED(s->levers[1].name = "mode", "lever 'mode' is listed twice");
    REFUSED(s->absents[0].module = "alpha", "absence of 'alpha:mul' is declared twice");
    REFUSED(s->image.target = "", "empty target name");
    REFUSED(s->image.arch = NULL, "empty arch name");
    REFUSED(s->modules[0].name = "", "empty module name");
    REFUSED(s->alpha_entries[0].name = "", "empty entry name");
    REFUSED(s->constants[0].name = "", "empty constant name");
    REFUSED(s->levers[0].name = "", "empty lever name");
    REFUSED(s->levers[0].env = NULL, "empty lever variable name");
    REFUSED(s->absents[0].entry = "", "empty absent entry name");
    REFUSED(s->modules[0].name = "a:b",
            "module 'a:b' has a ':' in its name, which joins module and entry");
    REFUSED(s->alpha_entries[0].name = "x\xff", "entry 'x\\xFF' is not UTF-8");
    REFUSED(s->flags[1] = "\xc0\x80", "flag '\\xC0\\x80' is not UTF-8");
    REFUSED(s->beta_entries[0].code_bytes = UINT64_MAX,
            "entry 'beta:scale_x2' has 18446744073709551615 bytes of code in a cubin of 3000");
    REFUSED(s->modules[1].object_count = 0, "module 'gamma' has no cubin");
    REFUSED(s->gamma_objects[0].size = 0, "module 'gamma' has an empty cubin");
    REFUSED(s->alpha_entries[0].block[2] = 0,
            "entry 'alpha:scale' has a block of 256 x 2 x 0 threads: the format allows 1 to 1024");
    REFUSED(s->alpha_entries[0].block[2] = 1025,
            "entry 'alpha:scale' has a block of 256 x 2 x 1025 threads: the format allows 1 to "
            "1024");
    REFUSED(s->alpha_entries[0].block[2] = 3,
            "entry 'alpha:scale' has a block of 256 x 2 x 3 threads: the format allows 1 to 1024");
#undef REFUSED
    free(s);
}

static void test_limits(void **state)
{
    (void)state;
    struct sample *s = sample_new();
    struct str out = {0};
    struct diags diags = {0};
    struct image_stats stats;
    struct image_limits limits = {
        .string_bytes = 1000, .records = 5, .entries = 5, .cubin_bytes = 3000};
    assert_true(image_write_limited(&s->image, 0, &limits, &out, &stats, &diags));
    uint64_t strings = view_of(&out).header->sections[KPK_SECTION_STRINGS].size;
    str_free(&out);
    limits.string_bytes = strings;
    assert_true(image_write_limited(&s->image, 0, &limits, &out, &stats, &diags));
    str_free(&out);
    diag_free(&diags);
    limits = (struct image_limits){
        .string_bytes = 1000, .records = 4, .entries = 5, .cubin_bytes = 3000};
    assert_refused(&s->image, &limits, "an image cannot hold 5 cubins: the format allows 4");
    limits = (struct image_limits){
        .string_bytes = 1000, .records = 5, .entries = 4, .cubin_bytes = 3000};
    assert_refused(&s->image, &limits, "an image cannot hold 5 entries: the format allows 4");
    limits = (struct image_limits){
        .string_bytes = 1000, .records = 5, .entries = 5, .cubin_bytes = 2999};
    assert_refused(&s->image, &limits,
                   "module 'alpha' has a cubin of 3000 bytes: the format allows 2999");
    limits = (struct image_limits){
        .string_bytes = strings - 1, .records = 5, .entries = 5, .cubin_bytes = 3000};
    char message[100];
    snprintf(message, sizeof message,
             "an image cannot hold so many names: the format allows %d bytes", (int)strings - 1);
    assert_refused(&s->image, &limits, message);
    free(s);
}

static void test_min_driver(void **state)
{
    (void)state;
    assert_int_equal(image_min_driver(13, 0, "sm_90a"), 13000);
    assert_int_equal(image_min_driver(13, 4, "sm_121a"), 13000);
    assert_int_equal(image_min_driver(12, 4, "sm_90a"), 12000);
    assert_int_equal(image_min_driver(12, 9, "sm_120a"), 12080);
    assert_int_equal(image_min_driver(12, 9, "sm_121a"), 12090);
    assert_int_equal(image_min_driver(13, 4, "sm_107a"), 13040);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_any_input_order),
        cmocka_unit_test(test_undeclared_fields),
        cmocka_unit_test(test_group_cap),
        cmocka_unit_test(test_no_modules),
        cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_twins_share_a_group),
        cmocka_unit_test(test_small_cubins_first),
        cmocka_unit_test(test_blocks_end_with_cubins),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_min_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
