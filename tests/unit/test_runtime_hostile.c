#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "runtime_fixture.h"

static const char *const names[][2] = {
    {"alpha", "one"}, {"alpha", "two"}, {"beta", "big"}, {"beta", "plain"}, {"gamma", "bare"}};
enum {
    NAMES = 5,
    FIRST_OF_GROUP_1 = 3,
};

static struct build_bytes copy_of(const struct build_bytes *bytes)
{
    /* Exactly as large as it says, so that a sanitizer sees one byte read too far. */
    struct build_bytes copy = {malloc(bytes->size > 0 ? bytes->size : 1), bytes->size};
    assert_non_null(copy.data);
    memcpy(copy.data, bytes->data, bytes->size);
    return copy;
}

static kpk_status open_quietly(const struct build_bytes *bytes, kpk_image **out_image)
{
    kpk_open_desc desc = {.symbol = fake_cuda_symbol};
    return kpk_open_memory(bytes->data, bytes->size, &desc, out_image);
}

static kpk_status load(kpk_image *image, const char *module, const char *entry)
{
    kpk_kernel kernel = kpk_resolve(image, module, entry);
    return kernel.id == 0 ? KPK_ERR_ABSENT : kpk_preload(image, &kernel, 1);
}

/* A flip in a group is found when it is first used, and keeps its cubins from the driver; the other
 * group still works. */
static void check_damaged_group(kpk_image *image, size_t group)
{
    assert_int_equal(kpk_verify(image), KPK_ERR_DAMAGED);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    unsigned long loaded = 0;
    for (size_t i = 0; i < NAMES; i++) {
        bool damaged = (i >= FIRST_OF_GROUP_1) == (group == 1);
        assert_int_equal(load(image, names[i][0], names[i][1]), damaged ? KPK_ERR_DAMAGED : KPK_OK);
        if (damaged) {
            assert_int_equal(fake_cuda_state()->libraries, loaded);
            assert_int_equal(kpk_absent_reason(image, names[i][0], names[i][1]),
                             KPK_ABSENT_DAMAGED);
        }
        loaded = fake_cuda_state()->libraries;
    }
    assert_int_equal(loaded, 2);
}

static void test_every_flip(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes bytes = copy_of(&fixture->bytes);
    const struct kpk_header *header = build_header(&fixture->bytes);
    size_t groups = header->index_offset + header->index_size;
    const struct kpk_group_record *second = build_record(&fixture->bytes, KPK_SECTION_GROUPS, 1);
    for (size_t at = 0; at < bytes.size; at++) {
        for (int bit = 0; bit < 9; bit++) {
            uint8_t mask = (uint8_t)(bit < 8 ? 1 << bit : 0xff);
            bytes.data[at] ^= mask;
            kpk_image *image = NULL;
            kpk_status status = open_quietly(&bytes, &image);
            if (at < 8) {
                assert_int_equal(status, KPK_ERR_FORMAT);
            } else if (at < 12) {
                assert_int_equal(status, KPK_ERR_VERSION);
            } else if (at < groups) {
                assert_int_equal(status, KPK_ERR_DAMAGED);
            } else {
                assert_int_equal(status, KPK_OK);
                check_damaged_group(image, at >= second->offset);
            }
            kpk_close(image);
            bytes.data[at] ^= mask;
        }
    }
    free(bytes.data);
}

static void test_every_truncation(void **state)
{
    struct fixture *fixture = *state;
    const char *path = fixture_file(&fixture->bytes);
    for (size_t size = fixture->bytes.size; size-- > 0;) {
        struct build_bytes part = {fixture->bytes.data, size};
        part = copy_of(&part);
        kpk_status expected = size < sizeof(struct kpk_prefix) ? KPK_ERR_FORMAT : KPK_ERR_DAMAGED;
        kpk_image *image = NULL;
        assert_int_equal(open_quietly(&part, &image), expected);
        assert_null(image);
        free(part.data);
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(kpk_open(path, NULL, &image), expected);
        assert_null(image);
    }
    unlink(path);
}

static void test_trailing_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes longer = {calloc(1, fixture->bytes.size + 8), fixture->bytes.size + 8};
    memcpy(longer.data, fixture->bytes.data, fixture->bytes.size);
    kpk_image *image = NULL;
    assert_int_equal(open_quietly(&longer, &image), KPK_ERR_DAMAGED);
    build_header(&longer)->prefix.file_size += 8; /* behind the last group */
    build_seal(&longer);
    assert_int_equal(open_quietly(&longer, &image), KPK_ERR_DAMAGED);
    free(longer.data);
}

/* Every word of the header and the index takes every bad value, digests made right again. */
static void test_every_word(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_header *header = build_header(&fixture->bytes);
    size_t end = header->sections[KPK_SECTION_STRINGS].offset;
    struct build_bytes bytes = copy_of(&fixture->bytes);
    unsigned opened = 0, refused = 0;
    for (size_t at = 8; at < end; at += 4) {
        uint32_t word;
        memcpy(&word, fixture->bytes.data + at, 4);
        const uint32_t values[] = {0,          1,        word + 1,   word - 1,  word ^ 4,
                                   0x7fffffff, 1u << 31, 0xffffffff, 0xfffffffe};
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            if (values[v] == word)
                continue;
            memcpy(bytes.data + at, &values[v], 4);
            build_seal(&bytes);
            kpk_image *image = NULL;
            if (open_quietly(&bytes, &image) == KPK_OK) {
                opened++;
                kpk_bind(image, 0);
                fixture_use_all(image);
            } else {
                refused++;
            }
            kpk_close(image);
            memcpy(bytes.data, fixture->bytes.data, end);
        }
    }
    free(bytes.data);
    /* Both happen: resource figures may be anything, offsets and counts may not. */
    assert_true(opened > 100 && refused > 1000);
}

struct bad_field {
    const char *what;
    int section; /* -1: the header */
    uint32_t record;
    size_t offset;
    uint64_t value;
    size_t size;
    kpk_status status;
};

#define HEADER(field, value, status)                                                               \
    {                                                                                              \
        "header " #field, -1, 0, offsetof(struct kpk_header, field), value,                        \
            sizeof(((struct kpk_header *)0)->field), status                                        \
    }
#define FIELD(section, type, record, field, value)                                                 \
    {                                                                                              \
#section " " #field, KPK_SECTION_##section, record, offsetof(struct kpk_##type, field),    \
            value, sizeof(((struct kpk_##type *)0)->field), KPK_ERR_DAMAGED                        \
    }
#define TABLE(id, field, value) HEADER(sections[KPK_SECTION_##id].field, value, KPK_ERR_DAMAGED)

static const struct bad_field bad_fields[] = {
    HEADER(prefix.version, 2, KPK_ERR_VERSION),
    HEADER(prefix.version, 0, KPK_ERR_VERSION),
    HEADER(kind, KPK_KIND_BUNDLE, KPK_ERR_DAMAGED),
    HEADER(kind, 0, KPK_ERR_VERSION),
    HEADER(prefix.header_size, 376, KPK_ERR_DAMAGED),
    HEADER(prefix.file_size, UINT64_MAX, KPK_ERR_DAMAGED),
    HEADER(section_count, KPK_SECTION_COUNT - 1, KPK_ERR_DAMAGED),
    HEADER(section_count, KPK_SECTION_COUNT + 1, KPK_ERR_DAMAGED),
    HEADER(index_offset, 392, KPK_ERR_DAMAGED),
    HEADER(index_size, UINT64_MAX, KPK_ERR_DAMAGED),
    HEADER(index_size, 0, KPK_ERR_DAMAGED),
    HEADER(reserved[15], 1, KPK_ERR_DAMAGED),
    TABLE(TARGET, count, 0),
    TABLE(TARGET, offset, 0),
    TABLE(ENTRIES, count, 4),
    TABLE(ENTRIES, stride, 72),
    TABLE(ENTRIES, stride, 0),
    TABLE(ENTRIES, size, UINT64_MAX),
    TABLE(SLOTS, offset, UINT64_MAX - 7),
    TABLE(STRINGS, offset, 1),
    TABLE(STRINGS, size, 0),
    TABLE(STRINGS, count, UINT32_MAX),
    FIELD(TARGET, target_record, 0, name.offset, UINT32_MAX),
    FIELD(TARGET, target_record, 0, name.size, UINT32_MAX),
    FIELD(TARGET, target_record, 0, arch.size, 0),
    FIELD(TARGET, target_record, 0, stamp.offset, 0x7fffffff),
    FIELD(TARGET, target_record, 0, reserved, 1),
    FIELD(TARGET, target_record, 0, raw_bytes, 1),
    FIELD(MODULES, module_record, 0, first_entry, 1),
    FIELD(MODULES, module_record, 0, entry_count, UINT32_MAX),
    FIELD(MODULES, module_record, 1, first_entry, 0),
    FIELD(MODULES, module_record, 2, entry_count, 0),
    FIELD(MODULES, module_record, 2, object_count, 2),
    FIELD(MODULES, module_record, 0, constant_count, 3),
    FIELD(MODULES, module_record, 0, flag_count, 1),
    FIELD(MODULES, module_record, 1, source.offset, UINT32_MAX),
    FIELD(MODULES, module_record, 1, origin.size, 100000),
    FIELD(ENTRIES, entry_record, 0, name.size, 2),
    FIELD(ENTRIES, entry_record, 0, name.size, 0),
    FIELD(ENTRIES, entry_record, 0, twin_of.offset, UINT32_MAX),
    FIELD(ENTRIES, entry_record, 0, module, 1),
    FIELD(ENTRIES, entry_record, 0, module, UINT32_MAX),
    FIELD(ENTRIES, entry_record, 0, object, 1),
    FIELD(ENTRIES, entry_record, 2, object, 0),
    FIELD(ENTRIES, entry_record, 3, object, UINT32_MAX),
    FIELD(ENTRIES, entry_record, 0, present, 8),
    FIELD(ENTRIES, entry_record, 0, twin_bits, 3),
    FIELD(ENTRIES, entry_record, 0, symbol.offset, UINT32_MAX),
    FIELD(ENTRIES, entry_record, 0, symbol.size, 2),
    FIELD(ENTRIES, entry_record, 0, code_bytes, 4096),
    FIELD(ENTRIES, entry_record, 4, code_bytes, UINT64_MAX),
    FIELD(ENTRIES, entry_record, 0, block[0], 0),
    FIELD(ENTRIES, entry_record, 0, block[0], 1025),
    FIELD(ENTRIES, entry_record, 0, block[2], UINT32_MAX),
    FIELD(ENTRIES, entry_record, 4, block[0], 1),
    FIELD(OBJECTS, object_record, 0, module, 1),
    FIELD(OBJECTS, object_record, 0, blob, 4),
    FIELD(BLOBS, blob_record, 0, group, 1),
    FIELD(BLOBS, blob_record, 0, reserved, 1),
    FIELD(BLOBS, blob_record, 1, offset, 0),
    FIELD(BLOBS, blob_record, 1, offset, UINT64_MAX - 4),
    FIELD(BLOBS, blob_record, 1, size, UINT64_MAX),
    FIELD(BLOBS, blob_record, 0, size, 0),
    FIELD(GROUPS, group_record, 0, offset, 0),
    FIELD(GROUPS, group_record, 1, offset, 384),
    FIELD(GROUPS, group_record, 0, packed_size, UINT64_MAX),
    FIELD(GROUPS, group_record, 0, packed_size, 0),
    FIELD(GROUPS, group_record, 1, packed_size, 1),
    FIELD(GROUPS, group_record, 0, raw_size, 0),
    FIELD(GROUPS, group_record, 0, raw_size, 1),
    FIELD(GROUPS, group_record, 0, raw_size, (uint64_t)1 << 40),
    FIELD(GROUPS, group_record, 0, first_blob, 1),
    FIELD(GROUPS, group_record, 0, blob_count, UINT32_MAX),
    FIELD(GROUPS, group_record, 1, blob_count, 1),
    FIELD(CONSTANTS, constant_record, 0, name.size, 0),
    FIELD(FLAGS, flag_record, 0, text.offset, UINT32_MAX),
    FIELD(LEVERS, lever_record, 0, kind, 4),
    FIELD(LEVERS, lever_record, 0, on, 2),
    FIELD(LEVERS, lever_record, 3, on, 1),
    FIELD(LEVERS, lever_record, 3, kind, KPK_LEVER_SWITCH),
    FIELD(ENTRIES, entry_record, 4, dynamic_smem, 1),
    FIELD(ENTRIES, entry_record, 4, spill_bytes, 1),
    FIELD(LEVERS, lever_record, 0, env.size, 0),
    FIELD(ABSENTS, absent_record, 0, module.offset, UINT32_MAX),
    FIELD(ABSENTS, absent_record, 0, entry.size, 0),
    FIELD(ABSENTS, absent_record, 1, reason.size, UINT32_MAX),
};

static void test_bad_fields(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(bad_fields) / sizeof(bad_fields[0]); i++) {
        const struct bad_field *bad = &bad_fields[i];
        struct build_bytes bytes = copy_of(&fixture->bytes);
        uint8_t *record =
            bad->section < 0 ? bytes.data
                             : build_record(&bytes, (enum kpk_section_id)bad->section, bad->record);
        assert_memory_not_equal(record + bad->offset, &bad->value, bad->size);
        memcpy(record + bad->offset, &bad->value, bad->size);
        build_seal(&bytes);
        kpk_open_desc desc = fixture_desc(fixture);
        kpk_image *image = NULL;
        fixture->messages = 0;
        kpk_status status = kpk_open_memory(bytes.data, bytes.size, &desc, &image);
        if (status != bad->status)
            print_error("%s: %s\n", bad->what, kpk_status_text(status));
        assert_int_equal(status, bad->status);
        assert_null(image);
        assert_int_equal(fixture->messages, 1);
        free(bytes.data);
    }
}

/* Slots with no empty one would make a lookup endless; one that points nowhere would crash it. */
static void test_bad_slots(void **state)
{
    struct fixture *fixture = *state;
    uint32_t count = build_header(&fixture->bytes)->sections[KPK_SECTION_SLOTS].count;
    for (int way = 0; way < 4; way++) {
        struct build_bytes bytes = copy_of(&fixture->bytes);
        struct kpk_slot *slots = build_record(&bytes, KPK_SECTION_SLOTS, 0);
        uint32_t used = 0, empty = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (way == 0)
                slots[i].entry = 1;
            *(slots[i].entry != 0 ? &used : &empty) = i;
        }
        if (way == 1)
            slots[used].entry = 6;
        if (way == 2)
            slots[used].entry = UINT32_MAX;
        if (way == 3)
            slots[empty].entry = 1;
        build_seal(&bytes);
        kpk_image *image = NULL;
        assert_int_equal(open_quietly(&bytes, &image), KPK_ERR_DAMAGED);
        free(bytes.data);
    }
}

/* Faults that take a layout of their own. */
static void test_bad_layouts(void **state)
{
    static const char *const said[] = {"exactly one record", "power of two", "power of two",
                                       "blobs have no group", "behind its last section"};
    struct fixture *fixture = *state;
    for (int way = 0; way < 5; way++) {
        struct build_image image = build_small;
        if (way == 0)
            image.targets = 1;
        if (way == 1)
            image.slot_count = 12;
        if (way == 2) /* fewer than entries, and none of them empty */
            image.slot_count = 4;
        struct build_bytes bytes = build_write(&image);
        struct kpk_group_record *group = build_record(&bytes, KPK_SECTION_GROUPS, 1);
        if (way == 3) { /* a blob without a group */
            const struct kpk_blob_record *blobs = build_record(&bytes, KPK_SECTION_BLOBS, 0);
            group->blob_count--;
            group->raw_size -= blobs[group->first_blob + group->blob_count].size;
        }
        if (way == 4) /* bytes behind the last section */
            bytes.data[sizeof(struct kpk_header) + build_header(&bytes)->index_size - 1] = 1;
        build_seal(&bytes);
        kpk_open_desc desc = fixture_desc(fixture);
        kpk_image *opened = NULL;
        assert_int_equal(kpk_open_memory(bytes.data, bytes.size, &desc, &opened), KPK_ERR_DAMAGED);
        if (strstr(fixture->message, said[way]) == NULL)
            fail_msg("%s", fixture->message);
        free(bytes.data);
    }
}

static void test_names_without_end(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_section *strings =
        &build_header(&fixture->bytes)->sections[KPK_SECTION_STRINGS];
    for (uint32_t i = 1; i < strings->count; i++) {
        struct build_bytes bytes = copy_of(&fixture->bytes);
        char *at = build_record(&bytes, KPK_SECTION_STRINGS, i);
        if (*at == '\0') {
            *at = 'x';
            build_seal(&bytes);
            kpk_image *image = NULL;
            assert_int_equal(open_quietly(&bytes, &image), KPK_ERR_DAMAGED);
        }
        free(bytes.data);
    }
}

/* What an open leaves to trust, because it cannot hurt: verify finds it. */
static void test_verify_finds(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 7; way++) {
        free(fixture->bytes.data);
        fixture->bytes = build_write(&build_small);
        struct kpk_module_record *modules = build_record(&fixture->bytes, KPK_SECTION_MODULES, 0);
        struct kpk_entry_record *entries = build_record(&fixture->bytes, KPK_SECTION_ENTRIES, 0);
        struct kpk_absent_record *absents = build_record(&fixture->bytes, KPK_SECTION_ABSENTS, 0);
        struct kpk_slot *slots = build_record(&fixture->bytes, KPK_SECTION_SLOTS, 0);
        if (way == 0)
            modules[1].name = modules[0].name;
        if (way == 1)
            entries[1].name = entries[0].name;
        if (way == 2)
            absents[1] = absents[0];
        struct kpk_lever_record *levers = build_record(&fixture->bytes, KPK_SECTION_LEVERS, 0);
        while (slots->entry == 0)
            slots++;
        if (way == 4)
            levers[1].name = levers[0].name;
        if (way == 5)
            memcpy(build_record(&fixture->bytes, KPK_SECTION_STRINGS, modules[0].name.offset + 1),
                   ":", 1);
        if (way == 6)
            memset(build_record(&fixture->bytes, KPK_SECTION_STRINGS, entries[0].name.offset + 1),
                   '\0', 1);
        if (way == 3)
            slots->tag++;
        build_seal(&fixture->bytes);
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        assert_int_equal(kpk_verify(fixture->image), KPK_ERR_DAMAGED);
    }
}

/* Puts other packed bytes in the place of the last group's, with a digest that matches. */
static void replace_last_group(struct build_bytes *bytes, const void *packed, size_t size)
{
    struct kpk_header *header = build_header(bytes);
    uint32_t last = header->sections[KPK_SECTION_GROUPS].count - 1;
    struct kpk_group_record *group = build_record(bytes, KPK_SECTION_GROUPS, last);
    size_t start = group->offset;
    uint8_t *data = malloc(start + size);
    assert_non_null(data);
    memcpy(data, bytes->data, start);
    memcpy(data + start, packed, size);
    free(bytes->data);
    bytes->data = data;
    bytes->size = start + size;
    build_header(bytes)->prefix.file_size = bytes->size;
    group = build_record(bytes, KPK_SECTION_GROUPS, last);
    group->packed_size = size;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(packed, size));
    memcpy(group->digest, canonical.digest, KPK_DIGEST_SIZE);
    build_seal(bytes);
}

/* Frames that are whole by their digest, but not what the index says. */
static void test_lying_frames(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_group_record *group = build_record(&fixture->bytes, KPK_SECTION_GROUPS, 1);
    size_t raw_size = group->raw_size;
    char *raw = calloc(1, 1 << 20);
    static char packed[65536];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    /* The group's own bytes: no cubin's digest helps where the frame lies. */
    assert_int_equal(
        ZSTD_decompress(raw, 1 << 20, fixture->bytes.data + group->offset, group->packed_size),
        raw_size);
    for (int way = 0; way < 11; way++) {
        ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
        size_t size = 0;
        if (way == 0) /* a bomb: a megabyte where bytes are promised */
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, 1 << 20);
        if (way == 1) /* too little */
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size - 1);
        if (way == 2) { /* does not say how much */
            ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size);
        }
        if (way == 3) { /* two frames */
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size);
            size += ZSTD_compress2(context, packed + size, sizeof(packed) - size, raw, raw_size);
        }
        if (way == 4) { /* the right size, other bytes: the cubins' own digests say so */
            char *other = calloc(1, raw_size);
            size = ZSTD_compress2(context, packed, sizeof(packed), other, raw_size);
            free(other);
        }
        if (way == 5) { /* no frame */
            memset(packed, 0x5a, 64);
            size = 64;
        }
        if (way == 6) { /* a frame that ends in a wrong checksum */
            ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size);
            packed[size - 1] ^= 1;
        }
        if (way == 7 || way == 8) { /* more or less than its header says: one byte, the sixth */
            size = ZSTD_compress2(context, packed, sizeof(packed), raw,
                                  way == 7 ? raw_size + 5 : raw_size - 1);
            packed[5] = (char)raw_size;
        }
        if (way == 9) { /* an empty skippable frame behind it */
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size);
            memcpy(packed + size, "\x50\x2a\x4d\x18\0\0\0\0", 8);
            size += 8;
        }
        if (way == 10) { /* cut short by a byte */
            ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
            size = ZSTD_compress2(context, packed, sizeof(packed), raw, raw_size) - 1;
        }
        assert_false(ZSTD_isError(size));
        struct build_bytes bytes = copy_of(&fixture->bytes);
        replace_last_group(&bytes, packed, size);
        kpk_image *image = NULL;
        assert_int_equal(open_quietly(&bytes, &image), KPK_OK);
        check_damaged_group(image, 1);
        char cubin[64];
        kpk_blob_info blob;
        assert_int_equal(kpk_get_blob(image, 2, &blob), KPK_OK);
        assert_int_equal(kpk_read_blob(image, 2, cubin, blob.size), KPK_ERR_DAMAGED);
        kpk_close(image);
        free(bytes.data);
    }
    ZSTD_freeCCtx(context);
    free(raw);
}

static kpk_status open_path(struct fixture *fixture, const char *path)
{
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image = NULL;
    kpk_status status = kpk_open(path, &desc, &image);
    kpk_close(image);
    return status;
}

static void test_files(void **state)
{
    struct fixture *fixture = *state;
    const char *path = fixture_file(&fixture->bytes);
    assert_int_equal(open_path(fixture, path), KPK_OK);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(open_path(fixture, path), KPK_ERR_FORMAT);
    assert_non_null(strstr(fixture->message, "is empty"));
    FILE *file = fopen(path, "w");
    fprintf(file, "This is a text file, and as long as the prefix of an image.\n");
    fclose(file);
    assert_int_equal(open_path(fixture, path), KPK_ERR_FORMAT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_path(fixture, path), KPK_ERR_IO);
    assert_non_null(strstr(fixture->message, path));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_path(fixture, path), KPK_ERR_IO);
    assert_non_null(strstr(fixture->message, "is a directory"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_path(fixture, path), KPK_ERR_IO);
    assert_non_null(strstr(fixture->message, "is not a regular file"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(path, path), 0);
    assert_int_equal(open_path(fixture, path), KPK_ERR_IO);
    assert_int_equal(unlink(path), 0);
}

static kpk_image *open_file(const char *path)
{
    kpk_open_desc desc = {.symbol = fake_cuda_symbol};
    kpk_image *image = NULL;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    return image;
}

static void test_file_changes_under_an_image(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 3; way++) {
        const char *path = fixture_file(&fixture->bytes);
        kpk_image *image = open_file(path);
        assert_int_equal(load(image, "alpha", "one"), KPK_OK);
        kpk_status expected = KPK_ERR_DAMAGED;
        if (way == 0)
            assert_int_equal(truncate(path, 100), 0);
        if (way == 1) {
            int file = open(path, O_WRONLY);
            char junk[8192] = {0};
            assert_true(write(file, junk, sizeof(junk)) == sizeof(junk));
            close(file);
        }
        if (way == 2) { /* replaced as a build does it: the old file lives on */
            expected = KPK_OK;
            char other[128]; /* of this process alone: others run this test beside it */
            snprintf(other, sizeof(other), "%s.other", path);
            FILE *file = fopen(other, "w");
            assert_non_null(file);
            fclose(file);
            assert_int_equal(rename(other, path), 0);
        }
        assert_int_equal(load(image, "gamma", "bare"), expected);
        fixture_use_all(image);
        kpk_close(image);
        unlink(path);
    }
}

/* A group longer than 4 GiB, most of it a hole, and one that begins behind it. */
static void test_sizes_over_4_gib(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_group_record *second = build_record(&fixture->bytes, KPK_SECTION_GROUPS, 1);
    uint64_t old_offset = second->offset, hole = (uint64_t)9 << 29;
    size_t tail = second->packed_size;
    struct build_bytes bytes = copy_of(&fixture->bytes);
    struct kpk_group_record *groups = build_record(&bytes, KPK_SECTION_GROUPS, 0);
    groups[0].packed_size += hole;
    groups[1].offset += hole;
    build_header(&bytes)->prefix.file_size += hole;
    build_seal(&bytes);
    const char *path = fixture_file(&bytes);
    int file = open(path, O_WRONLY);
    assert_true(ftruncate(file, (off_t)(bytes.size + hole)) == 0);
    assert_true(pwrite(file, fixture->bytes.data + old_offset, tail, (off_t)(old_offset + hole)) ==
                (ssize_t)tail);
    close(file);
    kpk_image *image = open_file(path);
    kpk_group_info info;
    assert_int_equal(kpk_get_group(image, 1, &info), KPK_OK);
    assert_true(info.offset > UINT32_MAX);
    assert_int_equal(load(image, "gamma", "bare"), KPK_OK);
    assert_int_equal(load(image, "beta", "plain"), KPK_OK);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_flip),
        TEST(test_every_truncation),
        TEST(test_trailing_bytes),
        TEST(test_every_word),
        TEST(test_bad_fields),
        TEST(test_bad_slots),
        TEST(test_names_without_end),
        TEST(test_verify_finds),
        TEST(test_bad_layouts),
        TEST(test_lying_frames),
        TEST(test_files),
        TEST(test_file_changes_under_an_image),
        TEST(test_sizes_over_4_gib),
    };
    return cmocka_run_group_tests_name("runtime_hostile", tests, NULL, NULL);
}
