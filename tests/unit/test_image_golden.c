#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "image/bundle.h"
#include "image/image.h"
#include "image_sample.h"
#include "runtime/kpk.h"

/* tests/golden/v1.kpk is the sample image as version 1 was first written, v1-bundle.kpk a bundle of
 * it and of the same for another target. They are never written again: run from the repository's
 * root, `test_image_golden --write FILE` and `--write-bundle FILE` make those of a new version. */
#define GOLDEN "tests/golden/v1.kpk"
#define GOLDEN_BUNDLE "tests/golden/v1-bundle.kpk"

static struct str write_sample(const char *target, const char *arch)
{
    struct sample *s = sample_new();
    struct str out = {0};
    if (target) {
        s->image.target = target;
        s->image.arch = arch;
        s->image.compute_major = 12;
        s->image.compute_minor = 1;
    }
    struct diags diags = {0};
    struct image_stats stats;
    if (!image_write(&s->image, 0, &out, &stats, &diags))
        abort();
    free(s);
    return out;
}

static struct str read_golden(const char *path)
{
    struct str bytes = {0};
    struct diags diags = {0};
    if (!file_read(path, &bytes, &diags))
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
    struct str golden = read_golden(GOLDEN), now = write_sample(NULL, NULL);
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

static struct bundle_part part_of(const struct str *bytes)
{
    kpk_image *image;
    kpk_image_info info;
    assert_int_equal(kpk_open_memory(bytes->data, bytes->len, NULL, &image), KPK_OK);
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    struct bundle_part part = {
        .path = "part",
        .target = strdup(info.target),
        .arch = strdup(info.arch),
        .compute_major = info.compute_major,
        .compute_minor = info.compute_minor,
        .min_driver = info.min_driver,
        .bytes = bytes->data,
        .size = bytes->len,
    };
    kpk_close(image);
    return part;
}

static struct str write_bundle(const struct str *one, const struct str *other)
{
    struct bundle_part parts[2] = {part_of(one), part_of(other)};
    struct str out = {0};
    struct diags diags = {0};
    assert_true(bundle_write(parts, 2, &out, &diags));
    for (int i = 0; i < 2; i++) {
        free((char *)(uintptr_t)parts[i].target);
        free((char *)(uintptr_t)parts[i].arch);
    }
    return out;
}

static struct str part_bytes(const struct str *bundle, kpk_image *image, uint32_t index)
{
    kpk_part_info part;
    struct str bytes = {0};
    assert_int_equal(kpk_get_part(image, index, &part), KPK_OK);
    str_add(&bytes, bundle->data + part.offset, part.size);
    return bytes;
}

/* Nothing in a bundle depends on the packer, so all of it must be as it was. */
static void test_golden_bundle(void **state)
{
    (void)state;
    struct str golden = read_golden(GOLDEN), bundle = read_golden(GOLDEN_BUNDLE);
    kpk_image *image;
    kpk_image_info info;
    assert_int_equal(kpk_open(GOLDEN_BUNDLE, NULL, &image), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_OK);
    assert_int_equal(kpk_part_count(image), 2);
    struct str other = part_bytes(&bundle, image, 0), own = part_bytes(&bundle, image, 1);
    kpk_close(image);
    assert_int_equal(own.len, golden.len);
    assert_memory_equal(own.data, golden.data, own.len);
    for (int way = 0; way < 2; way++) {
        struct str again = way ? write_bundle(&own, &other) : write_bundle(&other, &own);
        assert_int_equal(again.len, bundle.len);
        assert_memory_equal(again.data, bundle.data, bundle.len);
        str_free(&again);
    }
    kpk_open_desc desc = {.target = "other"};
    assert_int_equal(kpk_open(GOLDEN_BUNDLE, &desc, &image), KPK_OK);
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    assert_string_equal(info.arch, "sm_121a");
    assert_true(kpk_resolve(image, "alpha", "scale").id != 0);
    kpk_close(image);
    str_free(&golden);
    str_free(&bundle);
    str_free(&other);
    str_free(&own);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write-bundle") == 0) {
        struct str own = read_golden(GOLDEN), other = write_sample("other", "sm_121a");
        struct str bundle = write_bundle(&own, &other);
        struct diags diags = {0};
        return !file_publish(argv[2], bundle.data, bundle.len, &diags);
    }
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        struct str sample = write_sample(NULL, NULL);
        struct diags diags = {0};
        return !file_publish(argv[2], sample.data, sample.len, &diags);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_agrees),
        cmocka_unit_test(test_reader_reads_it),
        cmocka_unit_test(test_golden_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
