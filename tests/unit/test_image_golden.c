#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/file.h"
#include "image/image.h"
#include "image_sample.h"
#include "runtime/kpk.h"

/* tests/golden/v1.kpk is the sample image as version 1 was first written. It is never written
 * again: run from the repository's root, `test_image_golden --write FILE` makes one for a new
 * version. */
#define GOLDEN "tests/golden/v1.kpk"

static struct str write_sample(void)
{
    struct sample *s = sample_new();
    struct str out = {0};
    struct diags diags = {0};
    struct image_stats stats;
    if (!image_write(&s->image, 0, &out, &stats, &diags))
        abort();
    free(s);
    return out;
}

static struct str read_golden(void)
{
    struct str bytes = {0};
    struct diags diags = {0};
    if (!file_read(GOLDEN, &bytes, &diags))
        fail_msg("%s", diags.items[0].message);
    return bytes;
}

static const char *section(const struct str *file, int id)
{
    return file->data + ((const struct kpk_header *)file->data)->sections[id].offset;
}

/* Everything but the frames' bytes and what follows from them: libzstd may pack otherwise. */
static void test_writer_agrees(void **state)
{
    (void)state;
    struct str golden = read_golden(), now = write_sample();
    struct kpk_header a, b;
    memcpy(&a, golden.data, sizeof a);
    memcpy(&b, now.data, sizeof b);
    assert_int_equal(a.index_size, b.index_size);
    assert_memory_equal(a.sections, b.sections, sizeof a.sections);
    for (int id = 0; id < KPK_SECTION_COUNT; id++)
        if (id != KPK_SECTION_GROUPS)
            assert_memory_equal(section(&golden, id), section(&now, id), a.sections[id].size);
    const struct kpk_group_record *x = (const void *)section(&golden, KPK_SECTION_GROUPS);
    const struct kpk_group_record *y = (const void *)section(&now, KPK_SECTION_GROUPS);
    for (uint32_t i = 0; i < a.sections[KPK_SECTION_GROUPS].count; i++) {
        assert_int_equal(x[i].raw_size, y[i].raw_size);
        assert_int_equal(x[i].first_blob, y[i].first_blob);
        assert_int_equal(x[i].blob_count, y[i].blob_count);
    }
    str_free(&golden);
    str_free(&now);
}

static void check_cubin(kpk_image *image, uint32_t object, const uint8_t *expected, size_t size)
{
    kpk_object_info info;
    uint8_t bytes[SAMPLE_CUBIN];
    assert_int_equal(kpk_get_object(image, object, &info), KPK_OK);
    assert_int_equal(kpk_read_blob(image, info.blob, bytes, size), KPK_OK);
    assert_memory_equal(bytes, expected, size);
}

static void test_reader_reads_it(void **state)
{
    (void)state;
    kpk_image *image;
    assert_int_equal(kpk_open(GOLDEN, NULL, &image), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_OK);
    kpk_image_info info;
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    assert_int_equal(info.format_version, 1);
    assert_string_equal(info.arch, "sm_90a");
    assert_int_equal(info.entry_count, 5);
    kpk_entry_info entry;
    assert_int_equal(kpk_get_kernel(image, kpk_resolve(image, "alpha", "scale"), &entry), KPK_OK);
    assert_int_equal(entry.dynamic_smem, 49152);
    assert_int_equal(entry.block.y, 2);
    int64_t wide;
    assert_int_equal(kpk_constant(image, "alpha", "WIDE", &wide), KPK_OK);
    assert_true(wide == INT64_MIN);
    struct sample *s = sample_new();
    check_cubin(image, 0, s->alpha, sizeof s->alpha);
    check_cubin(image, 1, s->beta_two, sizeof s->beta_two);
    check_cubin(image, 2, s->beta_one, sizeof s->beta_one);
    free(s);
    kpk_close(image);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        struct str sample = write_sample();
        struct diags diags = {0};
        return !file_publish(argv[2], sample.data, sample.len, &diags);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_agrees),
        cmocka_unit_test(test_reader_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
