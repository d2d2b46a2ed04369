#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile/cubin.h"

/* The cubins in tests/golden/cubins were made by NVRTC from resources.cu; the expected figures are
 * those of `cuobjdump -res-usage`, less the 1024 bytes of shared memory from sm_90 on, and
 * the sizes of the .text sections as readelf shows them. */

struct expected {
    const char *file;
    uint32_t arch;
    struct cubin_entry entries[4];
};

static const struct expected expected[] = {
    {"tests/golden/cubins/nvrtc130-sm_90a.cubin",
     90,
     {{"_Z9templatedILi3EEvPf", 8, 0, 0, 0x100, {0}, 0},
      {"plain", 8, 0, 0, 0x180, {0}, 0},
      {"stack", 70, 256, 0, 0xb80, {256, 1, 1}, 0},
      {"static_smem", 10, 0, 1200, 0x200, {0}, 0}}},
    {"tests/golden/cubins/nvrtc124-sm_90a.cubin",
     90,
     {{"_Z9templatedILi3EEvPf", 8, 0, 0, 0x100, {0}, 0},
      {"plain", 8, 0, 0, 0x180, {0}, 0},
      {"stack", 70, 256, 0, 0xb80, {256, 1, 1}, 0},
      {"static_smem", 10, 0, 1200, 0x200, {0}, 0}}},
    {"tests/golden/cubins/nvrtc130-sm_80.cubin",
     80,
     {{"_Z9templatedILi3EEvPf", 8, 0, 0, 0x100, {0}, 0},
      {"plain", 8, 0, 0, 0x180, {0}, 0},
      {"stack", 70, 256, 0, 0xb80, {256, 1, 1}, 0},
      {"static_smem", 9, 0, 1200, 0x180, {0}, 0}}},
};

static void read_fixture(const char *path, struct str *out)
{
    struct diags diags = {0};
    assert_true(file_read(path, out, &diags));
    diag_free(&diags);
}

static void test_reads_both_abis(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct str bytes = {0};
        struct diags diags = {0};
        struct arena arena = {0};
        struct cubin cubin;
        read_fixture(expected[i].file, &bytes);
        assert_true(cubin_read("x", bytes.data, bytes.len, &arena, &cubin, &diags));
        assert_int_equal(cubin.arch, expected[i].arch);
        assert_int_equal(cubin.count, 4);
        for (size_t j = 0; j < 4; j++) {
            const struct cubin_entry *want = &expected[i].entries[j], *got = &cubin.entries[j];
            assert_string_equal(got->name, want->name);
            assert_int_equal(got->registers, want->registers);
            assert_int_equal(got->stack_bytes, want->stack_bytes);
            assert_int_equal(got->static_smem, want->static_smem);
            assert_int_equal(got->code_bytes, want->code_bytes);
            assert_true(got->code_offset && got->code_offset % 128 == 0);
            assert_true(got->code_offset + got->code_bytes <= bytes.len);
            assert_memory_equal(got->max_threads, want->max_threads, sizeof want->max_threads);
        }
        assert_int_equal(diags.count, 0);
        arena_free(&arena);
        str_free(&bytes);
    }
}

/* Reads a copy of exactly that size, so that a sanitizer sees one byte too far. */
static bool read_copy(const char *bytes, size_t size, struct diags *diags)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, bytes, size);
    struct arena arena = {0};
    struct cubin cubin;
    size_t before = diags->count;
    bool ok = cubin_read("x", copy, size, &arena, &cubin, diags);
    for (size_t i = 0; ok && i < cubin.count; i++)
        assert_true(cubin.entries[i].name[0] != '\0');
    assert_int_equal(diags->count - before, ok ? 0 : 1);
    arena_free(&arena);
    free(copy);
    return ok;
}

static void test_every_truncation(void **state)
{
    (void)state;
    struct str bytes = {0};
    read_fixture(expected[0].file, &bytes);
    uint64_t sections;
    memcpy(&sections, bytes.data + 40, sizeof sections);
    for (size_t size = 0; size < bytes.len; size++) {
        struct diags diags = {0};
        bool ok = read_copy(bytes.data, size, &diags);
        /* The program headers behind the section table are not needed. */
        if (size < sections)
            assert_false(ok);
        diag_free(&diags);
    }
    str_free(&bytes);
}

static void test_byte_flips(void **state)
{
    (void)state;
    struct str bytes = {0};
    read_fixture(expected[0].file, &bytes);
    static const unsigned char masks[] = {0x01, 0x10, 0x80, 0xff};
    size_t refused = 0;
    for (size_t i = 0; i < bytes.len; i++)
        for (size_t j = 0; j < sizeof masks; j++) {
            struct diags diags = {0};
            bytes.data[i] = (char)(bytes.data[i] ^ (char)masks[j]);
            refused += !read_copy(bytes.data, bytes.len, &diags);
            bytes.data[i] = (char)(bytes.data[i] ^ (char)masks[j]);
            diag_free(&diags);
        }
    assert_true(refused > 500);
    str_free(&bytes);
}

/* Several bytes at once, with a fixed generator: the same inputs on every run. */
static void test_random_damage(void **state)
{
    (void)state;
    struct str bytes = {0};
    uint64_t seed = 0x9e3779b97f4a7c15u;
    for (size_t file = 0; file < 2; file++) {
        read_fixture(expected[file].file, &bytes);
        char *copy = malloc(bytes.len);
        assert_non_null(copy);
        for (int round = 0; round < 4000; round++) {
            memcpy(copy, bytes.data, bytes.len);
            for (int i = 0; i < 6; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                /* Half of the damage goes to the header and the section table. */
                size_t from = i % 2 ? 0 : bytes.len - 4096, range = i % 2 ? bytes.len : 4096;
                copy[from + (size_t)(seed >> 33) % range] = (char)(seed >> 24);
            }
            struct diags diags = {0};
            read_copy(copy, bytes.len, &diags);
            diag_free(&diags);
        }
        free(copy);
    }
    str_free(&bytes);
}

static void expect_message(struct str *bytes, size_t at, const void *value, size_t size,
                           const char *message)
{
    char before[8];
    memcpy(before, bytes->data + at, size);
    memcpy(bytes->data + at, value, size);
    struct diags diags = {0};
    assert_false(read_copy(bytes->data, bytes->len, &diags));
    assert_non_null(strstr(diags.items[0].message, message));
    diag_free(&diags);
    memcpy(bytes->data + at, before, size);
}

static void test_messages(void **state)
{
    (void)state;
    struct str bytes = {0};
    read_fixture(expected[0].file, &bytes);
    expect_message(&bytes, 0, "\177ELG", 4, "it is no ELF file");
    expect_message(&bytes, 4, "\001", 1, "another machine");
    expect_message(&bytes, 18, "\x3e\0", 2, "another machine");
    expect_message(&bytes, 7, "\0", 1, "its ABI is neither");
    expect_message(&bytes, 40, "\377\377\377\377\377\377\377\377", 8, "section table is outside");
    expect_message(&bytes, 60, "\0\0", 2, "section table is outside");
    struct diags diags = {0};
    assert_false(read_copy("", 0, &diags));
    assert_string_equal(diags.items[0].message,
                        "'x' is no usable cubin: it is shorter than an ELF header");
    diag_free(&diags);
    str_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_both_abis), cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_byte_flips),      cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
