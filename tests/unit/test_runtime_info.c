#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image_sample.h"
#include "runtime/kpk_image.h"
#include "runtime_fixture.h"

static void test_image(void **state)
{
    struct fixture *fixture = *state;
    kpk_image_info info;
    assert_int_equal(kpk_get_image(fixture->image, &info), KPK_OK);
    assert_string_equal(info.target, "small");
    assert_string_equal(info.arch, "sm_90a");
    assert_string_equal(info.stamp, "");
    assert_int_equal(info.format_version, 1);
    assert_int_equal(info.compute_major, 9);
    assert_int_equal(info.compute_minor, 0);
    assert_int_equal(info.min_driver, 12040);
    assert_int_equal(info.nvrtc_major, 13);
    assert_int_equal(info.module_count, 3);
    assert_int_equal(info.entry_count, 5);
    assert_int_equal(info.object_count, 4);
    assert_int_equal(info.blob_count, 4);
    assert_int_equal(info.group_count, 2);
    assert_int_equal(info.lever_count, 4);
    assert_int_equal(info.absent_count, 2);
    assert_int_equal(info.raw_bytes, 13 + 9 + 15 + 16);
    assert_int_equal(info.file_bytes, fixture->bytes.size);
    assert_int_equal(kpk_get_image(NULL, &info), KPK_ERR_ARGUMENT);
    assert_null(info.target);
    assert_int_equal(kpk_get_image(fixture->image, NULL), KPK_ERR_ARGUMENT);
}

static void test_modules(void **state)
{
    struct fixture *fixture = *state;
    kpk_module_info module;
    assert_int_equal(kpk_get_module(fixture->image, 1, &module), KPK_OK);
    assert_string_equal(module.name, "beta");
    assert_string_equal(module.source, "source.cu");
    assert_string_equal(module.origin, "small");
    assert_int_equal(module.first_entry, 2);
    assert_int_equal(module.entry_count, 2);
    assert_int_equal(module.first_object, 1);
    assert_int_equal(module.object_count, 2);
    assert_int_equal(kpk_get_module(fixture->image, 3, &module), KPK_ERR_ARGUMENT);
    assert_null(module.name);
    uint32_t index = 9;
    assert_int_equal(kpk_find_module(fixture->image, "gamma", &index), KPK_OK);
    assert_int_equal(index, 2);
    assert_int_equal(kpk_find_module(fixture->image, "alp", &index), KPK_ERR_ABSENT);
    assert_int_equal(index, 0);
    assert_int_equal(kpk_find_module(fixture->image, NULL, &index), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_find_module(fixture->image, "alpha", NULL), KPK_ERR_ARGUMENT);
    assert_true(kpk_has_module(fixture->image, "alpha"));
    assert_false(kpk_has_module(fixture->image, "alphabet"));
    assert_false(kpk_has_module(fixture->image, NULL));
}

static void test_entries(void **state)
{
    struct fixture *fixture = *state;
    kpk_entry_info entry;
    assert_int_equal(kpk_get_entry(fixture->image, 1, &entry), KPK_OK);
    assert_string_equal(entry.module, "alpha");
    assert_string_equal(entry.name, "two");
    assert_string_equal(entry.symbol, "two");
    assert_string_equal(entry.twin_of, "alpha:one");
    assert_int_equal(entry.bits, KPK_BITS_SAME);
    assert_true(entry.has_block && entry.has_dynamic_smem && entry.has_spill);
    assert_int_equal(entry.block.x, 32);
    assert_int_equal(entry.block.y, 4);
    assert_int_equal(entry.block.z, 2);
    assert_int_equal(entry.registers, 33);
    assert_int_equal(entry.code_bytes, 2);
    assert_int_equal(entry.module_index, 0);
    assert_int_equal(entry.object, 0);
    assert_int_equal(kpk_get_entry(fixture->image, 3, &entry), KPK_OK);
    assert_string_equal(entry.name, "plain");
    assert_string_equal(entry.symbol, "_Z5plaini");
    assert_int_equal(kpk_get_entry(fixture->image, 4, &entry), KPK_OK);
    assert_false(entry.has_block || entry.has_dynamic_smem || entry.has_spill);
    assert_string_equal(entry.twin_of, "");
    assert_int_equal(entry.bits, KPK_BITS_NONE);
    assert_int_equal(entry.static_smem, 64);
    assert_int_equal(kpk_get_entry(fixture->image, 5, &entry), KPK_ERR_ARGUMENT);
    assert_null(entry.name);
}

static void test_objects_blobs_groups(void **state)
{
    struct fixture *fixture = *state;
    kpk_object_info object;
    kpk_blob_info blob;
    kpk_group_info group;
    assert_int_equal(kpk_get_object(fixture->image, 2, &object), KPK_OK);
    assert_int_equal(object.module, 1);
    assert_int_equal(object.blob, 2);
    assert_int_equal(kpk_get_blob(fixture->image, 3, &blob), KPK_OK);
    assert_int_equal(blob.group, 1);
    assert_int_equal(blob.offset, 15);
    assert_int_equal(blob.size, 16);
    assert_int_equal(kpk_get_group(fixture->image, 1, &group), KPK_OK);
    assert_int_equal(group.raw_size, 31);
    assert_int_equal(group.first_blob, 2);
    assert_int_equal(group.blob_count, 2);
    assert_int_equal(group.offset + group.packed_size, fixture->bytes.size);
    assert_int_equal(kpk_get_object(fixture->image, 4, &object), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_blob(fixture->image, 4, &blob), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_group(fixture->image, 2, &group), KPK_ERR_ARGUMENT);
}

static void test_constants_and_flags(void **state)
{
    struct fixture *fixture = *state;
    int64_t value = 1;
    assert_int_equal(kpk_constant(fixture->image, "alpha", "CHUNK", &value), KPK_OK);
    assert_int_equal(value, 64);
    assert_int_equal(kpk_constant(fixture->image, "alpha", "K_DIM", &value), KPK_OK);
    assert_true(value == -128);
    assert_int_equal(kpk_constant(fixture->image, "alpha", "V_DIM", &value), KPK_ERR_ABSENT);
    assert_int_equal(value, 0);
    assert_int_equal(kpk_constant(fixture->image, "beta", "CHUNK", &value), KPK_ERR_ABSENT);
    assert_int_equal(kpk_constant(fixture->image, "none", "CHUNK", &value), KPK_ERR_ABSENT);
    assert_int_equal(kpk_constant(fixture->image, NULL, "CHUNK", &value), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_constant(fixture->image, "alpha", "CHUNK", NULL), KPK_ERR_ARGUMENT);
    const char *text = NULL;
    assert_int_equal(kpk_get_constant(fixture->image, 0, 0, NULL, &value), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_constant(fixture->image, 0, 0, &text, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_flag(fixture->image, 0, 0, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_constant(fixture->image, 0, 1, &text, &value), KPK_OK);
    assert_string_equal(text, "K_DIM");
    assert_int_equal(kpk_get_constant(fixture->image, 0, 2, &text, &value), KPK_ERR_ARGUMENT);
    assert_null(text);
    assert_int_equal(kpk_get_constant(fixture->image, 3, 0, &text, &value), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_flag(fixture->image, 0, 1, &text), KPK_OK);
    assert_string_equal(text, "-lineinfo");
    assert_int_equal(kpk_get_flag(fixture->image, 0, 2, &text), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_flag(fixture->image, 1, 0, &text), KPK_ERR_ARGUMENT);
    assert_null(text);
}

static void test_reads_blobs(void **state)
{
    struct fixture *fixture = *state;
    char cubin[16];
    assert_int_equal(kpk_read_blob(fixture->image, 3, cubin, 16), KPK_OK);
    assert_string_equal(cubin, "FAKE bare other");
    assert_int_equal(kpk_read_blob(fixture->image, 1, cubin, 9), KPK_OK);
    assert_string_equal(cubin, "FAKE big");
    assert_int_equal(kpk_read_blob(fixture->image, 1, cubin, 8), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_read_blob(fixture->image, 4, cubin, 9), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_read_blob(fixture->image, 1, NULL, 9), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_verify(fixture->image), KPK_OK);
    assert_int_equal(fixture->messages, 0);
    assert_int_equal(fake_cuda_calls(), 0);
}

static void test_levers(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *lever, *env, *value;
        bool on;
    } cases[] = {
        {"switch", "KPK_TEST_SWITCH", NULL, true},
        {"switch", "KPK_TEST_SWITCH", "0", false},
        {"switch", "KPK_TEST_SWITCH", "false", false},
        {"switch", "KPK_TEST_SWITCH", "off", false},
        {"switch", "KPK_TEST_SWITCH", "no", false},
        {"switch", "KPK_TEST_SWITCH", "", true},
        {"switch", "KPK_TEST_SWITCH", "FALSE", true},
        {"switch", "KPK_TEST_SWITCH", "00", true},
        {"is1", "KPK_TEST_IS1", NULL, false},
        {"is1", "KPK_TEST_IS1", "1", true},
        {"is1", "KPK_TEST_IS1", "true", false},
        {"is1", "KPK_TEST_IS1", "", false},
        {"presence", "KPK_TEST_PRESENCE", NULL, false},
        {"presence", "KPK_TEST_PRESENCE", "0", true},
        {"presence", "KPK_TEST_PRESENCE", "", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsetenv(cases[i].env);
        if (cases[i].value != NULL)
            setenv(cases[i].env, cases[i].value, 1);
        kpk_lever lever;
        assert_int_equal(kpk_find_lever(fixture->image, cases[i].lever, &lever), KPK_OK);
        assert_string_equal(lever.env, cases[i].env);
        if (lever.on != cases[i].on)
            print_error("%s=%s\n", cases[i].env, cases[i].value);
        assert_int_equal(lever.on, cases[i].on);
        assert_int_equal(lever.origin, cases[i].value != NULL ? KPK_FROM_ENV : KPK_FROM_DEFAULT);
        unsetenv(cases[i].env);
    }
    kpk_lever lever;
    assert_int_equal(kpk_get_lever(fixture->image, 3, &lever), KPK_OK);
    assert_int_equal(lever.kind, KPK_TEXT);
    assert_string_equal(lever.text, "fallback");
    setenv("KPK_TEST_TEXT", "given", 1);
    assert_int_equal(kpk_get_lever(fixture->image, 3, &lever), KPK_OK);
    assert_string_equal(lever.text, "given");
    assert_string_equal(lever.default_text, "fallback");
    unsetenv("KPK_TEST_TEXT");
    assert_int_equal(kpk_get_lever(fixture->image, 4, &lever), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_find_lever(fixture->image, "none", &lever), KPK_ERR_ABSENT);
    assert_int_equal(kpk_find_lever(fixture->image, NULL, &lever), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_find_lever(fixture->image, "text", NULL), KPK_ERR_ARGUMENT);
    assert_null(lever.name);
}

static void test_absences(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *image = fixture->image;
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_PRESENT);
    assert_int_equal(kpk_absent_reason(image, "alpha", "three"), KPK_ABSENT_ENTRY);
    assert_int_equal(kpk_absent_reason(image, "alpha", NULL), KPK_ABSENT_ENTRY);
    assert_int_equal(kpk_absent_reason(image, "omega", "never"), KPK_ABSENT_MODULE);
    assert_int_equal(kpk_absent_reason(image, NULL, "one"), KPK_ABSENT_MODULE);
    assert_int_equal(kpk_unexpected_absences(image, NULL, 0), 0);
    kpk_absent_info absent;
    assert_int_equal(kpk_get_absent(image, 1, &absent), KPK_OK);
    assert_string_equal(absent.module, "omega");
    assert_string_equal(absent.entry, "never");
    assert_string_equal(absent.reason, "no target of this class ships it");
    assert_int_equal(kpk_get_absent(image, 2, &absent), KPK_ERR_ARGUMENT);

    static const char *const lookups[][2] = {
        {"omega", "never"}, {"alpha", "gone"}, {"alpha", "three"}, {"omega", "ever"},
        {"alpha", "three"}, {"alpha", "one"},  {"gamma", "gone"},  {"alpha", "three"}};
    for (size_t i = 0; i < 8; i++)
        kpk_resolve(image, lookups[i][0], lookups[i][1]);
    kpk_miss misses[3] = {{"", "", 0}, {"", "", 0}, {"", "", 77}};
    assert_int_equal(kpk_unexpected_absences(image, misses, 2), 3);
    assert_int_equal(misses[2].count, 77);
    assert_int_equal(kpk_unexpected_absences(image, misses, 3), 3);
    assert_string_equal(misses[0].module, "alpha");
    assert_string_equal(misses[0].entry, "three");
    assert_int_equal(misses[0].count, 3);
    assert_string_equal(misses[1].module, "omega");
    assert_string_equal(misses[1].entry, "ever");
    assert_int_equal(misses[1].count, 1);
    assert_string_equal(misses[2].module, "gamma");
}

static void test_misses_as_json(void **state)
{
    struct fixture *fixture = *state;
    char text[256];
    assert_int_equal(kpk_misses_json(fixture->image, text, sizeof text), 4);
    assert_string_equal(text, "[\n]\n");
    kpk_resolve(fixture->image, "alpha", "three");
    kpk_resolve(fixture->image, "a\"\\\n", "\xc2\xb5\xff\x7f");
    kpk_resolve(fixture->image, "alpha", "three");
    kpk_resolve(fixture->image, "omega", "never");
    const char *wanted =
        "[\n{\"module\": \"alpha\", \"entry\": \"three\", \"count\": 2},\n"
        "{\"module\": \"a\\\"\\\\\\u000a\", \"entry\": \"\xc2\xb5\\ufffd\\u007f\", "
        "\"count\": 1}\n]\n";
    size_t size = strlen(wanted);
    assert_int_equal(kpk_misses_json(fixture->image, NULL, 0), size);
    assert_int_equal(kpk_misses_json(fixture->image, NULL, 9), size);
    for (size_t capacity = 0; capacity <= size + 1; capacity++) {
        memset(text, '#', sizeof text);
        assert_int_equal(kpk_misses_json(fixture->image, text, capacity), size);
        if (capacity > 0) {
            assert_memory_equal(text, wanted, capacity - 1);
            assert_int_equal(text[capacity - 1], '\0');
        }
        assert_int_equal(text[capacity], '#');
    }
    assert_int_equal(kpk_misses_json(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_many_absences(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 1100; i++) {
            char name[32];
            snprintf(name, sizeof(name), "absent%d", i);
            assert_true(kpk_resolve(fixture->image, "alpha", name).id == 0);
        }
    }
    kpk_miss *misses = calloc(2000, sizeof(*misses));
    assert_int_equal(kpk_unexpected_absences(fixture->image, misses, 2000), 1024);
    for (int i = 0; i < 1024; i++) {
        char name[32];
        snprintf(name, sizeof(name), "absent%d", i);
        assert_string_equal(misses[i].entry, name);
        assert_int_equal(misses[i].count, 2);
    }
    free(misses);
    assert_int_equal(fixture->messages, 1);
    assert_int_equal(fixture->severity, KPK_WARNING);
    assert_non_null(strstr(fixture->message, "'alpha:absent1024'"));
}

static void compare_entry(const kpk_image *image, const struct image_module *module,
                          const struct image_entry *wanted, const kpk_entry_info *entry)
{
    assert_string_equal(entry->module, module->name);
    assert_string_equal(entry->name, wanted->name);
    assert_string_equal(entry->symbol, wanted->symbol != NULL ? wanted->symbol : wanted->name);
    assert_string_equal(entry->twin_of, wanted->twin_of != NULL ? wanted->twin_of : "");
    assert_int_equal(entry->bits, wanted->twin_bits);
    assert_int_equal(entry->registers, wanted->registers);
    assert_int_equal(entry->static_smem, wanted->static_smem);
    assert_int_equal(entry->stack_bytes, wanted->stack_bytes);
    assert_int_equal(entry->code_bytes, wanted->code_bytes);
    if (entry->has_block)
        assert_memory_equal(&entry->block, wanted->block, sizeof(wanted->block));
    if (entry->has_dynamic_smem)
        assert_int_equal(entry->dynamic_smem, wanted->dynamic_smem);
    kpk_object_info object;
    kpk_blob_info blob;
    assert_int_equal(kpk_get_object(image, entry->object, &object), KPK_OK);
    assert_int_equal(kpk_get_blob(image, object.blob, &blob), KPK_OK);
    assert_int_equal(blob.size, module->objects[wanted->object].size);
    void *cubin = malloc(blob.size);
    assert_int_equal(kpk_read_blob(image, object.blob, cubin, blob.size), KPK_OK);
    assert_memory_equal(cubin, module->objects[wanted->object].cubin, blob.size);
    free(cubin);
}

/* What the tool's writer writes is what the runtime reads. */
static void test_agrees_with_the_writer(void **state)
{
    (void)state;
    struct sample *sample = sample_new();
    struct str bytes = {0};
    struct image_stats stats;
    struct diags diags = {0};
    assert_true(image_write(&sample->image, 0, &bytes, &stats, &diags));
    kpk_image *image = NULL;
    assert_int_equal(kpk_open_memory(bytes.data, bytes.len, NULL, &image), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_OK);
    kpk_image_info info;
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    assert_int_equal(info.raw_bytes, stats.raw_bytes);
    assert_int_equal(info.file_bytes, stats.file_bytes);
    uint32_t found = 0;
    for (size_t m = 0; m < sample->image.module_count; m++) {
        const struct image_module *module = &sample->modules[m];
        for (size_t e = 0; e < module->entry_count; e++) {
            kpk_kernel kernel = kpk_resolve(image, module->name, module->entries[e].name);
            kpk_entry_info entry;
            assert_int_equal(kpk_get_kernel(image, kernel, &entry), KPK_OK);
            compare_entry(image, module, &module->entries[e], &entry);
            found++;
        }
        for (size_t c = 0; c < module->constant_count; c++) {
            int64_t value;
            assert_int_equal(kpk_constant(image, module->name, module->constants[c].name, &value),
                             KPK_OK);
            assert_true(value == module->constants[c].value);
        }
    }
    assert_int_equal(found, info.entry_count);
    for (size_t i = 0; i < sample->image.lever_count; i++) {
        kpk_lever lever;
        assert_int_equal(kpk_find_lever(image, sample->levers[i].name, &lever), KPK_OK);
        assert_string_equal(lever.env, sample->levers[i].env);
        assert_int_equal(lever.default_on, sample->levers[i].on);
    }
    for (size_t i = 0; i < sample->image.absent_count; i++)
        kpk_resolve(image, sample->absents[i].module, sample->absents[i].entry);
    assert_int_equal(kpk_unexpected_absences(image, NULL, 0), 0);
    kpk_close(image);
    str_free(&bytes);
    diag_free(&diags);
    free(sample);
}

/* A file that an earlier writer wrote stays readable. */
static void test_reads_the_golden_file(void **state)
{
    (void)state;
    kpk_image *image = NULL;
    assert_int_equal(kpk_open("tests/golden/v1.kpk", NULL, &image), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_OK);
    kpk_image_info info;
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    assert_int_equal(info.format_version, 1);
    assert_true(kpk_resolve(image, "alpha", "scale").id != 0);
    kpk_close(image);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

/* Whatever vectors a CPU has, at every length and place, a digest is the same. */
static void test_digests_agree(void **state)
{
    (void)state;
    static uint8_t bytes[5000];
    uint8_t plain[KPK_DIGEST_SIZE], other[KPK_DIGEST_SIZE];
    sample_noise(bytes, sizeof bytes, 7);
    for (size_t size = 0; size < sizeof bytes - 64; size += size < 1100 ? 1 : 61) {
        const uint8_t *at = bytes + size % 64;
        kpk_digest_plain(at, size, plain);
        kpk_digest(at, size, other);
        assert_memory_equal(plain, other, sizeof plain);
        assert_true(kpk_digest_matches(at, size, plain));
    }
}

static kpk_status open_nothing(struct fixture *fixture, const char *path)
{
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image = NULL;
    kpk_status status = kpk_open(path, &desc, &image);
    assert_null(image);
    return status;
}

/* A message is one line whatever the names in it say, and the reason survives a long path. */
static void test_message_is_one_line(void **state)
{
    struct fixture *fixture = *state;
    char path[3000];
    memset(path, 'p', sizeof(path));
    memcpy(path, "/\n\x1b[2J", 6);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(open_nothing(fixture, path), KPK_ERR_IO);
    assert_null(strpbrk(fixture->message, "\n\x1b"));
    assert_non_null(strstr(fixture->message, "cannot open"));
    const char *names[][2] = {
        {"a\r\t\x1f\x7f", "a????:"},                   /* ASCII's */
        {"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0:"}, /* U+0080 to U+009F */
        {"\x80\xff\xc3", "???:"},                      /* no UTF-8 */
        {"\xe2\x82\xac\xf0\x9f\x90\x84", "\xe2\x82\xac\xf0\x9f\x90\x84:"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(open_nothing(fixture, names[i][0]), KPK_ERR_IO);
        assert_memory_equal(fixture->message, names[i][1], strlen(names[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_image),
        TEST(test_modules),
        TEST(test_entries),
        TEST(test_objects_blobs_groups),
        TEST(test_constants_and_flags),
        TEST(test_reads_blobs),
        TEST(test_levers),
        TEST(test_absences),
        TEST(test_misses_as_json),
        TEST(test_many_absences),
        TEST(test_message_is_one_line),
        cmocka_unit_test(test_digests_agree),
        cmocka_unit_test(test_agrees_with_the_writer),
        cmocka_unit_test(test_reads_the_golden_file),
    };
    return cmocka_run_group_tests_name("runtime_info", tests, NULL, NULL);
}
