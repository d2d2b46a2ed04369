#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "build_bundle.h"
#include "runtime_fixture.h"

enum {
    GB10,
    HOPPER,
    PARTS,
};

static struct build_bytes copy_of(const struct build_bytes *bytes, size_t size)
{
    /* Exactly as large as it says, so that a sanitizer sees one byte read too far. */
    struct build_bytes copy = {malloc(size > 0 ? size : 1), size};
    assert_non_null(copy.data);
    memcpy(copy.data, bytes->data, size);
    return copy;
}

static kpk_status open_bytes(struct fixture *fixture, const struct build_bytes *bytes,
                             kpk_image **out_image)
{
    kpk_open_desc desc = fixture_desc(fixture);
    return kpk_open_memory(bytes->data, bytes->size, &desc, out_image);
}

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL)
        return 1;
    fixture->bytes = build_two();
    fake_cuda_reset();
    *state = fixture;
    return fixture_reopen(fixture) != KPK_OK;
}

/* Device 0 runs hopper, device 1 gb10. Where the byte `at` is damaged, one of the two at most sees
 * it, and none when it lies between them; an audit sees it in any case. */
static void check_flip(struct fixture *fixture, const struct build_bytes *bytes, size_t at)
{
    kpk_image *image = NULL;
    const struct kpk_part_record *parts =
        (const void *)(bytes->data + sizeof(struct kpk_bundle_header));
    size_t table_end = sizeof(struct kpk_bundle_header) +
                       ((const struct kpk_bundle_header *)(const void *)bytes->data)->table_size;
    kpk_status status = open_bytes(fixture, bytes, &image);
    if (at < table_end) {
        assert_int_equal(status, at < 8    ? KPK_ERR_FORMAT
                                 : at < 12 ? KPK_ERR_VERSION
                                           : KPK_ERR_DAMAGED);
        assert_null(image);
        return;
    }
    assert_int_equal(status, KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_ERR_DAMAGED);
    kpk_close(image);
    for (int device = 0; device < PARTS; device++) {
        const struct kpk_part_record *part = &parts[device == 0 ? HOPPER : GB10];
        bool damaged = at >= part->offset && at < part->offset + part->size;
        assert_int_equal(open_bytes(fixture, bytes, &image), KPK_OK);
        status = kpk_bind(image, device);
        if (status == KPK_OK)
            status = kpk_preload(image, NULL, 0);
        assert_int_equal(status, damaged ? KPK_ERR_DAMAGED : KPK_OK);
        kpk_close(image);
    }
}

static void set_devices(void)
{
    fake_cuda_state()->device_count = 2;
    fake_cuda_state()->devices[1] = fake_cuda_state()->devices[0];
    fake_cuda_state()->devices[1].major = 12;
    fake_cuda_state()->devices[1].minor = 1;
}

static void test_every_flip(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
    set_devices();
    for (size_t at = 0; at < bytes.size; at++) {
        uint8_t mask = (uint8_t)(1 << at % 8);
        bytes.data[at] ^= mask;
        check_flip(fixture, &bytes, at);
        bytes.data[at] ^= mask;
    }
    free(bytes.data);
}

static void test_every_truncation(void **state)
{
    struct fixture *fixture = *state;
    const char *path = fixture_file(&fixture->bytes);
    for (size_t size = fixture->bytes.size; size-- > 0;) {
        struct build_bytes part = copy_of(&fixture->bytes, size);
        kpk_status expected = size < sizeof(struct kpk_prefix) ? KPK_ERR_FORMAT : KPK_ERR_DAMAGED;
        kpk_image *image = NULL;
        assert_int_equal(open_bytes(fixture, &part, &image), expected);
        assert_null(image);
        free(part.data);
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(kpk_open(path, NULL, &image), expected);
    }
    unlink(path);
}

/* Cut behind the open, so that the table says more than there is. */
static void test_cut_while_open(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_part_record hopper = *build_part(&fixture->bytes, HOPPER);
    const char *path = fixture_file(&fixture->bytes);
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    const struct kpk_header *header = (const void *)(fixture->bytes.data + hopper.offset);
    size_t end = header->index_offset + header->index_size;
    for (size_t keep = end; keep-- > 0;) {
        assert_int_equal(truncate(path, (off_t)(hopper.offset + keep)), 0);
        assert_int_equal(kpk_bind(image, 0), KPK_ERR_DAMAGED);
        assert_non_null(strstr(fixture->message, "the file ended at byte"));
    }
    kpk_close(image);
    unlink(path);
}

/* ---- Tables that lie, with digests that are right -------------------------------------------- */

struct lie {
    const char *what;
    bool header;
    uint32_t part;
    size_t offset, size;
    uint64_t value;
    const char *message;
};

#define HEADER(field, value)                                                                       \
    {                                                                                              \
        "header " #field, true, 0, offsetof(struct kpk_bundle_header, field),                      \
            sizeof(((struct kpk_bundle_header *)0)->field), value, "fields out of bounds"          \
    }
#define PART(part, field, value, message)                                                          \
    {                                                                                              \
        "part " #field, false, part, offsetof(struct kpk_part_record, field),                      \
            sizeof(((struct kpk_part_record *)0)->field), value, message                           \
    }
#define STRING "a string is out of bounds"
#define BOUNDS "do not follow the part before, or pass the file's end"

/* Strings of build_two: NUL, "gb10" at 1, "sm_121a" at 6, "hopper" at 14, "sm_90a" at 21, end 28.
 */
static const struct lie lies[] = {
    HEADER(part_count, 0),
    HEADER(part_count, 257),
    HEADER(part_count, UINT32_MAX),
    HEADER(part_count, 3), /* the table has no room for it */
    HEADER(table_offset, 0),
    HEADER(table_offset, 392),
    HEADER(table_offset, UINT64_MAX),
    HEADER(table_size, 0),
    HEADER(table_size, 127),
    HEADER(table_size, (1 << 20) + 1),
    HEADER(table_size, UINT64_MAX),
    HEADER(reserved[0], 1),
    HEADER(reserved[303], 1),
    PART(0, target.offset, 28, STRING),
    PART(0, target.offset, UINT32_MAX, STRING),
    PART(0, target.size, 0, STRING),
    PART(0, target.size, 3, STRING),  /* no NUL behind it */
    PART(0, target.size, 12, STRING), /* a NUL in it */
    PART(0, target.size, UINT32_MAX, STRING),
    PART(1, arch.offset, 22 + 7, STRING),
    PART(1, arch.size, 0, STRING),
    PART(0, reserved, 1, "reserved bytes are not zero"),
    PART(0, offset, 0, BOUNDS),
    PART(0, offset, 8192, BOUNDS),
    PART(0, offset, UINT64_MAX, BOUNDS),
    PART(1, offset, 4096, BOUNDS), /* over the first */
    PART(1, offset, UINT64_MAX & ~(uint64_t)4095, BOUNDS),
    PART(0, size, 0, BOUNDS),
    PART(0, size, 383, BOUNDS),
    PART(0, size, UINT64_MAX, BOUNDS),
    PART(0, size, UINT64_MAX - 4095, BOUNDS),
    PART(1, size, 100000, BOUNDS),
    PART(1, size, 1000, "bytes behind its last part"),
};

static void test_lies(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        const struct lie *lie = &lies[i];
        struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
        uint8_t *at = lie->header ? bytes.data : (uint8_t *)build_part(&bytes, lie->part);
        memcpy(at + lie->offset, &lie->value, lie->size);
        build_seal_bundle(&bytes);
        kpk_image *image = NULL;
        kpk_status status = open_bytes(fixture, &bytes, &image);
        if (status != KPK_ERR_DAMAGED || strstr(fixture->message, lie->message) == NULL)
            fail_msg("%s = %llx: %s: %s", lie->what, (unsigned long long)lie->value,
                     kpk_status_text(status), fixture->message);
        free(bytes.data);
    }
}

/* Tables whose faults take two fields. */
static void test_twice(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 3; way++) {
        struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
        struct kpk_part_record *parts = build_part(&bytes, 0);
        struct kpk_string swap = parts[0].target;
        if (way == 0)
            parts[1].arch = parts[0].arch;
        if (way == 1)
            parts[1].target = parts[0].target;
        if (way == 2) {
            parts[0].target = parts[1].target;
            parts[1].target = swap;
        }
        build_seal_bundle(&bytes);
        kpk_image *image;
        assert_int_equal(open_bytes(fixture, &bytes, &image), KPK_ERR_DAMAGED);
        assert_non_null(strstr(fixture->message,
                               way == 0 ? "its arch is another part's" : "target is out of order"));
        free(bytes.data);
    }
}

/* The table is whole, and says of the part what is not so. */
static void test_other_than_the_part(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 6; way++) {
        struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
        struct kpk_part_record *part = build_part(&bytes, HOPPER);
        const char *said = "part table says other than the part";
        if (way == 0) /* "opper" */
            part->target.offset++, part->target.size--;
        if (way == 1) /* "m_90a" */
            part->arch.offset++, part->arch.size--;
        if (way == 2)
            part->compute_minor = 1;
        if (way == 3)
            part->min_driver--;
        if (way == 4)
            part->digest[0] ^= 1;
        if (way == 5) { /* a size that its header does not have */
            part->size -= 1;
            bytes.size -= 1;
            build_bundle_header(&bytes)->prefix.file_size -= 1;
        }
        if (way == 4)
            said = "is not the image that the part table names";
        if (way == 5)
            said = "its header says";
        build_seal_bundle(&bytes);
        kpk_image *image;
        fake_cuda_state()->devices[0].minor = way == 2;
        assert_int_equal(open_bytes(fixture, &bytes, &image), KPK_OK);
        assert_int_equal(kpk_bind(image, 0), KPK_ERR_DAMAGED);
        assert_non_null(strstr(fixture->message, said));
        assert_int_equal(kpk_verify(image), KPK_ERR_DAMAGED);
        assert_int_equal(kpk_resolve(image, "alpha", "one").id, 0);
        kpk_close(image);
        free(bytes.data);
    }
}

/* Parts that are no images: a bundle, and an image of another version. */
static void test_nested(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 2; way++) {
        struct build_bytes images[2] = {build_for("gb10", "sm_121a", 12, 1),
                                        build_for("hopper", "sm_90a", 9, 0)};
        struct kpk_header *header = build_header(&images[1]);
        if (way == 0)
            header->kind = KPK_KIND_BUNDLE;
        else
            header->prefix.version = 2;
        build_seal(&images[1]);
        struct build_bytes bundle = build_bundle(images, 2);
        kpk_image *image;
        assert_int_equal(open_bytes(fixture, &bundle, &image), KPK_OK);
        assert_int_equal(kpk_bind(image, 0), way == 0 ? KPK_ERR_DAMAGED : KPK_ERR_VERSION);
        assert_non_null(strstr(fixture->message, way == 0 ? "[hopper]: is of kind 2, expected an"
                                                          : "[hopper]: is a kpack image of "
                                                            "version 2"));
        kpk_close(image);
        free(images[0].data);
        free(images[1].data);
        free(bundle.data);
    }
}

/* Every word of header and table takes bad values, the digests right: no crash, whatever is said.
 */
static void test_every_word(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
    size_t end = sizeof(struct kpk_bundle_header) + PARTS * sizeof(struct kpk_part_record);
    unsigned opened = 0, refused = 0;
    set_devices();
    for (size_t at = 8; at < end; at += 4) {
        uint32_t word;
        memcpy(&word, fixture->bytes.data + at, 4);
        const uint32_t values[] = {0,          1,        word + 1,   word - 1,  word ^ 4,
                                   0x7fffffff, 1u << 31, 0xffffffff, 0xfffffffe};
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            memcpy(bytes.data + at, &values[v], 4);
            build_seal_bundle(&bytes);
            for (int device = 0; device < 2; device++) {
                kpk_image *image = NULL;
                bool ok = open_bytes(fixture, &bytes, &image) == KPK_OK;
                if (ok)
                    kpk_verify(image);
                if (ok && kpk_bind(image, device) == KPK_OK)
                    fixture_use_all(image);
                opened += ok;
                refused += !ok;
                kpk_close(image);
            }
            memcpy(bytes.data, fixture->bytes.data, end);
        }
    }
    free(bytes.data);
    assert_true(opened > 50 && refused > 500);
}

/* A part behind 4 GiB of the part before, most of it a hole. */
static void test_sizes_over_4_gib(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes bytes = copy_of(&fixture->bytes, fixture->bytes.size);
    struct kpk_part_record *parts = build_part(&bytes, 0);
    uint64_t hole = (uint64_t)5 << 30, old = parts[HOPPER].offset;
    size_t size = parts[HOPPER].size;
    parts[GB10].size += hole;
    parts[HOPPER].offset += hole;
    build_bundle_header(&bytes)->prefix.file_size += hole;
    build_seal_bundle(&bytes);
    const char *path = fixture_file(&bytes);
    int file = open(path, O_WRONLY);
    assert_true(ftruncate(file, (off_t)(bytes.size + hole)) == 0);
    assert_true(pwrite(file, fixture->bytes.data + old, size, (off_t)(old + hole)) ==
                (ssize_t)size);
    close(file);
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image;
    kpk_part_info part;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(kpk_get_part(image, HOPPER, &part), KPK_OK);
    assert_true(part.offset > UINT32_MAX);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

/* An audit opens each part by a number of its own. */
static void test_no_file_left(void **state)
{
    struct fixture *fixture = *state;
    const char *path = fixture_file(&fixture->bytes);
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image;
    struct rlimit old, none;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = old;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    kpk_status status = kpk_verify(image);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(status, KPK_ERR_IO);
    assert_int_equal(kpk_verify(image), KPK_OK);
    kpk_close(image);
    unlink(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_flip),
        TEST(test_every_truncation),
        TEST(test_cut_while_open),
        TEST(test_lies),
        TEST(test_twice),
        TEST(test_other_than_the_part),
        TEST(test_nested),
        TEST(test_every_word),
        TEST(test_sizes_over_4_gib),
        TEST(test_no_file_left),
    };
    return cmocka_run_group_tests_name("bundle_hostile", tests, NULL, NULL);
}
