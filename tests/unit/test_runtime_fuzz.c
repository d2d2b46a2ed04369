/* Random damage to a small image: what no digest vouches for is always found, and what a forger
 * with right digests writes never crashes the runtime. KPK_FUZZ_RUNS=1000000 sets how many inputs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime_fixture.h"

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint32_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % limit);
}

static void write_interesting(uint8_t *data, size_t size)
{
    static const uint64_t values[] = {
        0,          1,          7,          8,           0x7f,       0x80,      0xff, 0xffff,
        0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, UINT64_MAX, INT64_MAX, 384,  64};
    uint64_t value = values[random_below(sizeof(values) / sizeof(values[0]))];
    size_t width = random_below(2) == 0 ? 4 : 8;
    size_t at = random_below(size / 4) * 4;
    if (at + width <= size)
        memcpy(data + at, &value, width);
}

static void mutate(uint8_t *data, size_t size, size_t index_end)
{
    /* Mostly in the index: the groups' bytes have one digest and no structure of ours. */
    size_t reach = random_below(8) == 0 ? size : index_end;
    for (uint32_t times = 1 + random_below(3); times > 0; times--) {
        switch (random_below(4)) {
        case 0:
            data[random_below(reach)] ^= (uint8_t)(1 << random_below(8));
            break;
        case 1:
            data[random_below(reach)] = (uint8_t)random_below(256);
            break;
        case 2:
            write_interesting(data, reach);
            break;
        default: {
            size_t length = 1 + random_below(80);
            size_t from = random_below(reach), to = random_below(reach);
            if (from + length <= size && to + length <= size)
                memmove(data + to, data + from, length);
        }
        }
    }
}

/* Digests of the header, the index and, where they lie in the file, the groups. */
static void forge(struct build_bytes *bytes)
{
    struct kpk_header *header = build_header(bytes);
    const struct kpk_section *section = &header->sections[KPK_SECTION_GROUPS];
    for (uint32_t i = 0; i < 2; i++) {
        size_t at = section->offset + i * sizeof(struct kpk_group_record);
        if (section->offset > bytes->size || at % 8 != 0 ||
            at + sizeof(struct kpk_group_record) > bytes->size)
            break;
        struct kpk_group_record *group = (struct kpk_group_record *)(void *)(bytes->data + at);
        if (group->offset > bytes->size || group->packed_size > bytes->size - group->offset)
            continue;
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical,
                                 XXH3_128bits(bytes->data + group->offset, group->packed_size));
        memcpy(group->digest, canonical.digest, KPK_DIGEST_SIZE);
    }
    build_seal(bytes);
}

/* Whether it opened. */
static bool try_input(const struct build_bytes *bytes, bool genuine, bool forged)
{
    kpk_open_desc desc = {.symbol = fake_cuda_symbol};
    kpk_image *image = NULL;
    kpk_status status = kpk_open_memory(bytes->data, bytes->size, &desc, &image);
    if (status == KPK_OK) {
        if (!forged)
            assert_int_equal(kpk_verify(image), genuine ? KPK_OK : KPK_ERR_DAMAGED);
        kpk_bind(image, 0);
        fixture_use_all(image);
    } else {
        assert_false(genuine);
    }
    kpk_close(image);
    return status == KPK_OK;
}

static void test_random_damage(void **state)
{
    struct fixture *fixture = *state;
    const char *wanted = getenv("KPK_FUZZ_RUNS");
    unsigned long runs = wanted != NULL ? strtoul(wanted, NULL, 10) : 40000;
    const struct kpk_header *header = build_header(&fixture->bytes);
    size_t index_end = header->index_offset + header->index_size;
    unsigned long opened = 0;
    for (unsigned long run = 0; run < runs; run++) {
        size_t size = fixture->bytes.size;
        bool forged = run % 4 != 0;
        if (!forged && random_below(8) == 0)
            size = random_below(size);
        struct build_bytes bytes = {malloc(size > 0 ? size : 1), size};
        assert_non_null(bytes.data);
        memcpy(bytes.data, fixture->bytes.data, size);
        if (size > index_end)
            mutate(bytes.data, size, index_end);
        if (forged)
            forge(&bytes);
        bool genuine =
            size == fixture->bytes.size && memcmp(bytes.data, fixture->bytes.data, size) == 0;
        opened += try_input(&bytes, genuine, forged);
        free(bytes.data);
    }
    /* The runtime's other functions see hostile images too, not only kpk_open. */
    assert_in_range(opened, runs / 20, runs - runs / 4);
}

/* What random damage hardly meets, several words at once: what the checks remember of the entry
 * before starts with nothing that an index can say. */
static void test_bad_first_entries(void **state)
{
    struct fixture *fixture = *state;
    static const uint32_t values[] = {0x7fffffff, 0x80000000, UINT32_MAX - 1, UINT32_MAX};
    for (size_t i = 0; i < 3 * sizeof(values) / sizeof(values[0]); i++) {
        struct build_bytes bytes = {malloc(fixture->bytes.size), fixture->bytes.size};
        assert_non_null(bytes.data);
        memcpy(bytes.data, fixture->bytes.data, bytes.size);
        struct kpk_entry_record *entry =
            (struct kpk_entry_record *)(void *)build_record(&bytes, KPK_SECTION_ENTRIES, 0);
        struct kpk_string string = {values[i / 3], values[i / 3]};
        if (i % 3 == 0)
            entry->object = values[i / 3];
        else
            *(i % 3 == 1 ? &entry->twin_of : &entry->symbol) = string;
        entry->code_bytes = 0;
        build_seal(&bytes);
        kpk_open_desc desc = fixture_desc(fixture);
        kpk_image *image = NULL;
        assert_int_equal(kpk_open_memory(bytes.data, bytes.size, &desc, &image), KPK_ERR_DAMAGED);
        assert_null(image);
        free(bytes.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_damage, fixture_start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_bad_first_entries, fixture_start, fixture_stop),
    };
    return cmocka_run_group_tests_name("runtime_fuzz", tests, NULL, NULL);
}
