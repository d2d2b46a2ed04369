/* A group is decoded as far as its members are used: what is kept, what goes on from there, and
 * what damage behind the wanted cubin does. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/kpk_image.h"
#include "runtime_fixture.h"

enum {
    MEMBERS = 4,
};

/* In the order of their cubins in the one group. */
static const char *const members[MEMBERS][2] = {
    {"alpha", "one"}, {"beta", "big"}, {"beta", "plain"}, {"gamma", "bare"}};

static int start_long(void **state)
{
    int failed = fixture_start(state);
    struct fixture *fixture = *state;
    if (failed)
        return failed;
    free(fixture->bytes.data);
    fixture->bytes = build_write_long();
    return fixture_reopen(fixture) != KPK_OK || kpk_bind(fixture->image, 0) != KPK_OK;
}

static void reopen(struct fixture *fixture)
{
    assert_int_equal(fixture_reopen(fixture), KPK_OK);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
}

static kpk_status load(struct fixture *fixture, int member)
{
    struct fake_cuda *fake = fake_cuda_state();
    unsigned long libraries = fake->libraries;
    kpk_kernel kernel = kpk_resolve(fixture->image, members[member][0], members[member][1]);
    void *function = NULL;
    kpk_status status = kpk_function(fixture->image, kernel, &function);
    if (status == KPK_OK)
        assert_memory_equal(fake->loaded_text, build_small.blobs[member],
                            strlen(build_small.blobs[member]));
    else
        assert_int_equal(fake->libraries, libraries);
    return status;
}

static struct kpk_group_record *group_of(struct fixture *fixture)
{
    return build_record(&fixture->bytes, KPK_SECTION_GROUPS, 0);
}

static uint8_t *packed(struct fixture *fixture)
{
    return fixture->bytes.data + group_of(fixture)->offset;
}

static bool in_image(const struct fixture *fixture, const void *address)
{
    uintptr_t start = (uintptr_t)fixture->bytes.data, at = (uintptr_t)address;
    return at >= start && at < start + fixture->bytes.size;
}

/* Of an image in memory neither the index nor a group's packed bytes are copied. */
static void test_memory_is_not_copied(void **state)
{
    struct fixture *fixture = *state;
    kpk_image_info image;
    kpk_module_info module;
    kpk_entry_info entry;
    assert_int_equal(kpk_get_image(fixture->image, &image), KPK_OK);
    assert_int_equal(kpk_get_module(fixture->image, 0, &module), KPK_OK);
    assert_int_equal(kpk_get_entry(fixture->image, 0, &entry), KPK_OK);
    assert_true(in_image(fixture, image.target) && in_image(fixture, module.name));
    assert_true(in_image(fixture, entry.name) && in_image(fixture, fixture->image->slots));
    assert_null(fixture->image->owned_index);
    assert_int_equal(load(fixture, 0), KPK_OK);
    const struct kpk_decoding *decoding = &fixture->image->group_states[0].decoding;
    assert_true(in_image(fixture, decoding->packed));
    assert_null(decoding->owned_packed);
    /* A file's are. */
    const char *path = fixture_file(&fixture->bytes);
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *file = NULL;
    assert_int_equal(kpk_open(path, &desc, &file), KPK_OK);
    assert_int_equal(kpk_get_module(file, 0, &module), KPK_OK);
    assert_false(in_image(fixture, module.name));
    kpk_close(file);
    unlink(path);
}

/* Every order of the four: a member that was passed already, one further on, the last one. */
static void test_every_order(void **state)
{
    struct fixture *fixture = *state;
    for (int order = 0; order < MEMBERS * MEMBERS * MEMBERS * MEMBERS; order++) {
        int used = 0;
        for (int i = 0, rest = order; i < MEMBERS; i++, rest /= MEMBERS)
            used |= 1 << rest % MEMBERS;
        if (used != (1 << MEMBERS) - 1)
            continue;
        reopen(fixture);
        for (int i = 0, rest = order; i < MEMBERS; i++, rest /= MEMBERS)
            assert_int_equal(load(fixture, rest % MEMBERS), KPK_OK);
    }
    assert_int_equal(fixture->messages, 0);
}

/* What was decoded is not read again: its packed bytes may go. What was not is: they may not. */
static void test_goes_on_where_it_stopped(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(load(fixture, 0), KPK_OK);
    memset(packed(fixture), 0, 1000);
    assert_int_equal(load(fixture, 2), KPK_OK);
    assert_int_equal(load(fixture, 1), KPK_OK);
    packed(fixture)[group_of(fixture)->packed_size - 10] ^= 1;
    assert_int_equal(load(fixture, 3), KPK_ERR_DAMAGED);
    assert_int_equal(kpk_absent_reason(fixture->image, "gamma", "bare"), KPK_ABSENT_DAMAGED);
}

static void test_trim_forgets(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(load(fixture, 2), KPK_OK);
    kpk_trim(fixture->image);
    assert_int_equal(load(fixture, 1), KPK_OK);
    assert_int_equal(load(fixture, 0), KPK_OK);
    kpk_trim(fixture->image);
    kpk_trim(fixture->image);
    packed(fixture)[0] ^= 1;
    assert_int_equal(load(fixture, 3), KPK_ERR_DAMAGED);
}

/* A file is read once, whole, at the group's first use. */
static void test_file_may_change_after_first_use(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 2; way++) {
        const char *path = fixture_file(&fixture->bytes);
        kpk_open_desc desc = fixture_desc(fixture);
        kpk_close(fixture->image);
        fixture->image = NULL;
        assert_int_equal(kpk_open(path, &desc, &fixture->image), KPK_OK);
        assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
        assert_int_equal(load(fixture, 0), KPK_OK);
        assert_int_equal(truncate(path, 1000), 0);
        assert_int_equal(load(fixture, 1), KPK_OK);
        if (way == 1)
            kpk_trim(fixture->image);
        assert_int_equal(load(fixture, 3), way == 0 ? KPK_OK : KPK_ERR_DAMAGED);
        unlink(path);
    }
}

/* The digest over all packed bytes comes first: a flip behind the wanted cubin is found too. */
static void test_flips_anywhere(void **state)
{
    struct fixture *fixture = *state;
    size_t size = group_of(fixture)->packed_size;
    for (size_t at = 0; at < size; at += at < 64 || at + 64 >= size ? 1 : 997) {
        packed(fixture)[at] ^= 0x10;
        reopen(fixture);
        for (int member = 0; member < MEMBERS; member++)
            assert_int_equal(load(fixture, member), KPK_ERR_DAMAGED);
        packed(fixture)[at] ^= 0x10;
    }
    assert_int_equal(fake_cuda_state()->calls[FAKE_cuLibraryLoadData], 0);
}

/* Bytes that their digest vouches for, but that do not decode to the end: what stands before the
 * fault is served in any order, what stands behind it never. */
static void check_bad_tail(struct fixture *fixture, int first_bad)
{
    build_seal_group(&fixture->bytes, 0);
    for (int first = 0; first < MEMBERS; first++) {
        reopen(fixture);
        for (int i = 0; i < MEMBERS; i++) {
            int member = (first + i) % MEMBERS;
            assert_int_equal(load(fixture, member), member < first_bad ? KPK_OK : KPK_ERR_DAMAGED);
            /* It stays so. */
            assert_int_equal(
                kpk_absent_reason(fixture->image, members[member][0], members[member][1]),
                member < first_bad ? KPK_PRESENT : KPK_ABSENT_DAMAGED);
        }
        assert_int_equal(fake_cuda_state()->libraries, first_bad);
    }
    reopen(fixture);
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_ERR_DAMAGED);
    assert_int_equal(fake_cuda_state()->libraries, first_bad);
    assert_int_equal(kpk_verify(fixture->image), KPK_ERR_DAMAGED);
    char *cubin = malloc(200000);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        kpk_blob_info blob;
        assert_int_equal(kpk_get_blob(fixture->image, i, &blob), KPK_OK);
        assert_int_equal(kpk_read_blob(fixture->image, i, cubin, blob.size),
                         (int)i < first_bad ? KPK_OK : KPK_ERR_DAMAGED);
    }
    free(cubin);
}

static size_t block_size(const uint8_t *header)
{
    uint32_t word = (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
    size_t size = word >> 3;
    return 3 + ((word >> 1 & 3) == 1 ? 1 : size); /* one byte repeated */
}

/* Position of a block of the group's frame: each but the last holds 128 KiB. */
static size_t find_block(struct fixture *fixture, int block)
{
    const uint8_t *frame = packed(fixture);
    size_t at = (frame[4] >> 5 & 1) != 0 ? 9 : 10; /* magic, descriptor, window, 4 of size */
    assert_int_equal(frame[4] >> 6, 2);
    for (int i = 0; i < block; i++)
        at += block_size(frame + at);
    assert_true(at < group_of(fixture)->packed_size);
    return at;
}

static void test_bad_tails(void **state)
{
    struct fixture *fixture = *state;
    /* The first cubin ends in block 1, the second in 2, the third in 3, the last in 4. */
    for (int block = 1; block < 5; block++) {
        size_t at = find_block(fixture, block);
        packed(fixture)[at] ^= 4; /* taken as it lies: decodes, to too few bytes */
        check_bad_tail(fixture, block - 1);
        packed(fixture)[at] ^= 4;
        memset(packed(fixture) + at + 3, 0xff, 16); /* no compressed block */
        check_bad_tail(fixture, block - 1);
        free(fixture->bytes.data);
        fixture->bytes = build_write_long();
    }
    /* The checksum at the frame's end. */
    size_t last = group_of(fixture)->packed_size - 1;
    packed(fixture)[last] ^= 1;
    check_bad_tail(fixture, 3);
    packed(fixture)[last] ^= 1;
    build_seal_group(&fixture->bytes, 0);
    reopen(fixture);
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
}

/* Frames that decode, with another cubin's bytes in the place of one: only its own digest says so.
 */
static void test_one_cubin_is_another(void **state)
{
    struct fixture *fixture = *state;
    struct kpk_blob_record *blob = build_record(&fixture->bytes, KPK_SECTION_BLOBS, 1);
    blob->digest[3] ^= 1;
    build_seal(&fixture->bytes);
    for (int first = 0; first < MEMBERS; first++) {
        reopen(fixture);
        for (int i = 0; i < MEMBERS; i++) {
            int member = (first + i) % MEMBERS;
            assert_int_equal(load(fixture, member), member == 1 ? KPK_ERR_DAMAGED : KPK_OK);
        }
    }
}

/* A preload decodes a group once, as far as all that it names: the packed bytes may go then. */
static void test_preload_reaches_further(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 3; way++) {
        free(fixture->bytes.data);
        fixture->bytes = build_write_long();
        reopen(fixture);
        kpk_kernel some[] = {kpk_resolve(fixture->image, "gamma", "bare"),
                             kpk_resolve(fixture->image, "alpha", "one")};
        struct fake_cuda *fake = fake_cuda_state();
        if (way == 0)
            assert_int_equal(kpk_preload(fixture->image, some, 2), KPK_OK);
        if (way == 1) { /* the driver refuses the first that it gets */
            fake->fail_with[FAKE_cuLibraryLoadData] = 2;
            fake->fail_call[FAKE_cuLibraryLoadData] = fake->calls[FAKE_cuLibraryLoadData] + 1;
            assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_ERR_DRIVER);
            fake->fail_with[FAKE_cuLibraryLoadData] = 0;
        }
        if (way == 2)
            assert_int_equal(kpk_preload(fixture->image, some + 1, 1), KPK_OK);
        memset(packed(fixture), 0, group_of(fixture)->packed_size);
        for (int member = 0; member < 3; member++)
            assert_int_equal(load(fixture, member),
                             way == 2 && member > 0 ? KPK_ERR_DAMAGED : KPK_OK);
    }
}

/* A forger's frames, their digest right, used in any order: what loads is one of the four cubins,
 * by its own digest. KPK_FUZZ_RUNS=100000 sets how many frames. */
static void test_random_frames(void **state)
{
    struct fixture *fixture = *state;
    const char *wanted = getenv("KPK_FUZZ_RUNS");
    unsigned long runs = wanted != NULL ? strtoul(wanted, NULL, 10) : 200;
    size_t size = group_of(fixture)->packed_size;
    uint8_t *genuine = malloc(size);
    assert_non_null(genuine);
    memcpy(genuine, packed(fixture), size);
    uint32_t random = 1;
    unsigned long loaded = 0, refused = 0;
    for (unsigned long run = 0; run < runs; run++) {
        for (unsigned long times = 1 + run % 3; times > 0; times--) {
            random = random * 1664525 + 1013904223;
            size_t reach = run % 4 == 0 ? 200 : size; /* a quarter where frames and tables begin */
            packed(fixture)[(random >> 8) % reach] ^= (uint8_t)(1 << (random >> 5 & 7));
        }
        build_seal_group(&fixture->bytes, 0);
        reopen(fixture);
        for (int i = 0; i < MEMBERS; i++) {
            kpk_status status =
                load(fixture, (int)(run + (uint32_t)i * (run & 2 ? 3 : 1)) % MEMBERS);
            assert_true(status == KPK_OK || status == KPK_ERR_DAMAGED);
            *(status == KPK_OK ? &loaded : &refused) += 1;
        }
        memcpy(packed(fixture), genuine, size);
    }
    free(genuine);
    assert_true(loaded > runs / 4 && refused > runs);
}

/* One raw block under a window of 2^(10 + exponent) bytes. */
static size_t write_frame(uint8_t *to, int exponent, const void *raw, size_t size)
{
    uint8_t head[] = {0x28,
                      0xb5,
                      0x2f,
                      0xfd,
                      0x80,
                      (uint8_t)(exponent << 3),
                      (uint8_t)size,
                      0,
                      0,
                      0,
                      (uint8_t)(size << 3 | 1),
                      0,
                      0};
    assert_true(size < 32);
    memcpy(to, head, sizeof(head));
    memcpy(to + sizeof(head), raw, size);
    return sizeof(head) + size;
}

/* What a frame asks for in memory is bounded before anything is allocated for it. */
static void test_windows(void **state)
{
    struct fixture *fixture = *state;
    static const char *const blobs[] = {"FAKE one two", "FAKE big", "FAKE _Z5plaini", "FAKE"};
    for (int exponent = 18; exponent < 32; exponent++) {
        struct build_image image = build_small;
        image.blobs = blobs;
        image.group_blobs = 2;
        free(fixture->bytes.data);
        fixture->bytes = build_write(&image);
        struct kpk_group_record *last = build_record(&fixture->bytes, KPK_SECTION_GROUPS, 1);
        size_t start = last->offset, raw_size = last->raw_size;
        char raw[64];
        memcpy(raw, blobs[2], strlen(blobs[2]) + 1);
        memcpy(raw + strlen(blobs[2]) + 1, blobs[3], strlen(blobs[3]) + 1);
        fixture->bytes.data = realloc(fixture->bytes.data, start + 64);
        assert_non_null(fixture->bytes.data);
        last = build_record(&fixture->bytes, KPK_SECTION_GROUPS, 1);
        last->packed_size = write_frame(fixture->bytes.data + start, exponent, raw, raw_size);
        fixture->bytes.size = start + last->packed_size;
        build_header(&fixture->bytes)->prefix.file_size = fixture->bytes.size;
        build_seal_group(&fixture->bytes, 1);
        reopen(fixture);
        kpk_kernel plain = kpk_resolve(fixture->image, "beta", "plain");
        assert_int_equal(kpk_preload(fixture->image, &plain, 1),
                         exponent <= 20 ? KPK_OK : KPK_ERR_DAMAGED);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_long, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_is_not_copied),
        TEST(test_every_order),
        TEST(test_goes_on_where_it_stopped),
        TEST(test_trim_forgets),
        TEST(test_file_may_change_after_first_use),
        TEST(test_flips_anywhere),
        TEST(test_bad_tails),
        TEST(test_one_cubin_is_another),
        TEST(test_preload_reaches_further),
        TEST(test_random_frames),
        TEST(test_windows),
    };
    return cmocka_run_group_tests_name("runtime_groups", tests, NULL, NULL);
}
