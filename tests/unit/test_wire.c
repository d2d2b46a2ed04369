#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/wire.h"

static void write_sample(struct str *out)
{
    static const char *const texts[] = {"one", "", "three"};
    size_t begin = wire_begin(out, WIRE_JOB);
    wire_u64(out, 42);
    wire_text(out, "text");
    wire_bytes(out, "a\0b", 3);
    wire_texts(out, texts, 3);
    wire_end(out, begin);
}

struct sample {
    uint64_t number;
    const char *text, *bytes, **texts;
    size_t size, count;
};

static bool read_sample(struct wire_message *message, struct arena *arena, struct sample *out)
{
    out->number = wire_take_u64(message);
    out->text = wire_take_text(message, arena);
    out->bytes = wire_take_bytes(message, arena, &out->size);
    out->texts = wire_take_texts(message, arena, &out->count);
    return wire_done(message);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct str bytes = {0};
    write_sample(&bytes);
    size_t one = bytes.len, used;
    write_sample(&bytes);
    struct wire_message message;
    struct sample sample;
    assert_int_equal(wire_next(bytes.data, bytes.len, &message, &used), WIRE_WHOLE);
    assert_int_equal(used, one);
    assert_int_equal(message.type, WIRE_JOB);
    assert_true(read_sample(&message, &arena, &sample));
    assert_int_equal(sample.number, 42);
    assert_string_equal(sample.text, "text");
    assert_int_equal(sample.size, 3);
    assert_memory_equal(sample.bytes, "a\0b", 3);
    assert_int_equal(sample.count, 3);
    assert_string_equal(sample.texts[0], "one");
    assert_string_equal(sample.texts[1], "");
    assert_string_equal(sample.texts[2], "three");
    str_free(&bytes);
    arena_free(&arena);
}

static void test_parts_are_waited_for(void **state)
{
    (void)state;
    struct str bytes = {0};
    write_sample(&bytes);
    struct wire_message message;
    size_t used;
    for (size_t size = 0; size < bytes.len; size++) {
        assert_int_equal(wire_next(bytes.data, size, &message, &used), WIRE_MORE);
        assert_int_equal(used, 0);
    }
    str_free(&bytes);
}

static void test_garbage(void **state)
{
    (void)state;
    struct wire_message message;
    size_t used;
    /* Known at the first byte, so that noise never waits for more. */
    assert_int_equal(wire_next("x", 1, &message, &used), WIRE_GARBAGE);
    struct str bytes = {0};
    write_sample(&bytes);
    for (size_t i = 0; i < 8; i++) {
        bytes.data[i] = (char)(bytes.data[i] ^ 0x40);
        assert_int_equal(wire_next(bytes.data, bytes.len, &message, &used), WIRE_GARBAGE);
        bytes.data[i] = (char)(bytes.data[i] ^ 0x40);
    }
    bytes.data[15] = 0x7f; /* a size that nothing has */
    assert_int_equal(wire_next(bytes.data, bytes.len, &message, &used), WIRE_GARBAGE);
    str_free(&bytes);
}

/* A field that lies about its size makes the message bad, and everything after it empty. */
static void test_damaged_fields(void **state)
{
    (void)state;
    struct str bytes = {0};
    write_sample(&bytes);
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    for (size_t i = 16; i < bytes.len; i++)
        for (size_t j = 0; j < sizeof masks; j++) {
            char *copy = malloc(bytes.len);
            assert_non_null(copy);
            memcpy(copy, bytes.data, bytes.len);
            copy[i] = (char)(copy[i] ^ (char)masks[j]);
            struct arena arena = {0};
            struct wire_message message;
            struct sample sample;
            size_t used;
            assert_int_equal(wire_next(copy, bytes.len, &message, &used), WIRE_WHOLE);
            if (!read_sample(&message, &arena, &sample) && message.bad)
                assert_int_equal(wire_take_u64(&message), 0);
            arena_free(&arena);
            free(copy);
        }
    str_free(&bytes);
}

static void test_left_over_and_missing_fields(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct str bytes = {0};
    size_t begin = wire_begin(&bytes, WIRE_READY), used;
    wire_bytes(&bytes, "a\0b", 3);
    wire_end(&bytes, begin);
    struct wire_message message;
    assert_int_equal(wire_next(bytes.data, bytes.len, &message, &used), WIRE_WHOLE);
    assert_false(wire_done(&message));
    /* A text never holds a NUL. */
    assert_string_equal(wire_take_text(&message, &arena), "");
    assert_true(message.bad);
    assert_false(wire_done(&message));
    size_t count;
    assert_null(wire_take_texts(&message, &arena, &count));
    assert_int_equal(count, 0);
    str_free(&bytes);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_parts_are_waited_for),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_damaged_fields),
        cmocka_unit_test(test_left_over_and_missing_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
