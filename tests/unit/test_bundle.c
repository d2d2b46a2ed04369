#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build_bundle.h"
#include "image/bundle.h"

enum {
    MANY = KPK_PART_LIMIT + 1,
};

static struct bundle_part part_for(const struct build_bytes *bytes, const char *target,
                                   const char *arch, uint32_t major, uint32_t minor)
{
    return (struct bundle_part){
        .path = target,
        .target = target,
        .arch = arch,
        .compute_major = major,
        .compute_minor = minor,
        .min_driver = 12040,
        .bytes = bytes->data,
        .size = bytes->size,
    };
}

/* The writer and the tests' own, which share no code, agree to the byte. */
static void test_writers_agree(void **state)
{
    (void)state;
    static const char *const targets[] = {"a", "b", "c"}, *const archs[] = {"sm_80", "sm_90a",
                                                                            "sm_100f"};
    static const uint32_t major[] = {8, 9, 10};
    struct build_bytes images[3];
    struct bundle_part parts[3];
    for (uint32_t i = 0; i < 3; i++) {
        images[i] = build_for(targets[i], archs[i], major[i], 0);
        parts[2 - i] = part_for(&images[i], targets[i], archs[i], major[i], 0);
    }
    for (uint32_t count = 1; count <= 3; count++) {
        struct build_bytes expected = build_bundle(images, count);
        struct str out = {0};
        struct diags diags = {0};
        str_adds(&out, "kept");
        assert_true(bundle_write(parts + 3 - count, count, &out, &diags));
        assert_int_equal(out.len, 4 + expected.size);
        assert_memory_equal(out.data + 4, expected.data, expected.size);
        str_free(&out);
        free(expected.data);
    }
    for (uint32_t i = 0; i < 3; i++)
        free(images[i].data);
}

static void refuse(const struct bundle_part *parts, size_t count, const char *said)
{
    struct str out = {0};
    struct diags diags = {0};
    assert_false(bundle_write(parts, count, &out, &diags));
    assert_int_equal(out.len, 0);
    assert_int_equal(diags.errors, 1);
    assert_non_null(strstr(diags.items[0].message, said));
    diag_free(&diags);
    str_free(&out);
}

static void test_limits(void **state)
{
    (void)state;
    static struct bundle_part parts[MANY];
    static char names[MANY][2][24];
    struct build_bytes image = build_for("a", "sm_80", 8, 0);
    struct str out = {0};
    struct diags diags = {0};
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i][0], sizeof names[i][0], "target %d", i);
        snprintf(names[i][1], sizeof names[i][1], "sm_%d", i);
        parts[i] = part_for(&image, names[i][0], names[i][1], 8, 0);
    }
    refuse(parts, 0, "a bundle holds 1 to 256 images, not 0");
    refuse(parts, MANY, "a bundle holds 1 to 256 images, not 257");
    assert_true(bundle_write(parts, KPK_PART_LIMIT, &out, &diags));
    str_free(&out);

    parts[1].target = parts[0].target;
    parts[1].path = "elsewhere";
    refuse(parts, 2, "'target 0' and 'elsewhere' are both for target 'target 0'");
    parts[1].target = "another";
    parts[1].arch = parts[0].arch;
    refuse(parts, 2, "'target 0' (target 'target 0') are both for sm_0");

    char *name = malloc(KPK_TABLE_LIMIT);
    memset(name, 'n', KPK_TABLE_LIMIT);
    name[KPK_TABLE_LIMIT - 1] = '\0';
    parts[0].target = name;
    refuse(parts, 1, "longer than a bundle's table may be");
    free(name);
    free(image.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writers_agree),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
