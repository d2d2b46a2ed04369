#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/jobserver.h"
#include "base/watch.h"
#include "cache/cache.h"
#include "cache/cache_key.h"
#include "cache/record.h"

/* Keys, entries and records of the cache, and what stands for unchanged files. */

static struct arena arena;
static char *folder;

static int set_up(void **state)
{
    (void)state;
    char name[] = "/tmp/kpack-cache-XXXXXX";
    folder = arena_strdup(&arena, mkdtemp(name));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    int status = system(arena_printf(&arena, "rm -rf %s", folder));
    arena_free(&arena);
    return status;
}

static const char *put(const char *name, const char *text)
{
    struct diags diags = {0};
    const char *path = path_join(&arena, folder, name);
    assert_true(file_publish(path, text, strlen(text), &diags));
    return path;
}

/* ---- Keys -------------------------------------------------------------------------------------
 */

static void test_fields_do_not_run_together(void **state)
{
    (void)state;
    static const char *const lists[][6] = {
        {"a", "b", "c", "", "", ""},      {"ab", "", "c", "", "", ""},
        {"a", "", "bc", "", "", ""},      {"a", "b", "", "c", "", ""},
        {"", "a", "b", "c", "", ""},      {"a\n", "b", "c", "", "", ""},
        {"a", "b", "c\\x0a", "", "", ""}, {"a", "b", "c\n", "", "", ""}};
    struct digest digests[8];
    for (size_t i = 0; i < 8; i++) {
        struct str key = {0};
        key_add(&key, lists[i][0], lists[i][1], lists[i][2]);
        key_add(&key, lists[i][3], lists[i][4], lists[i][5]);
        digests[i] = key_digest(&key);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&digests[i], &digests[j], sizeof digests[i]);
        str_free(&key);
    }
}

static void test_damaged_key(void **state)
{
    (void)state;
    struct str key = {0};
    struct key_field field;
    key_add(&key, "type", "name", "value");
    size_t whole = key.len;
    for (key.len = 0; key.len < whole; key.len++) {
        size_t at = 0;
        assert_false(key_next(&key, &at, &field));
    }
    key.data[4] = '\0'; /* a text that is shorter than its length says */
    size_t at = 0;
    assert_false(key_next(&key, &at, &field));
    str_free(&key);
}

static void test_difference(void **state)
{
    (void)state;
    struct str old = {0}, new = {0};
    struct key_field before, after;
    key_add(&old, "flag", "", "-a");
    key_add(&old, "flag", "", "-b");
    key_add(&old, "constant", "N", "1");
    key_add(&new, "flag", "", "-a");
    key_add(&new, "flag", "", "-b");
    key_add(&new, "constant", "N", "1");
    assert_false(key_difference(&old, &new, &before, &after));
    key_add(&new, "constant", "M", "2");
    assert_true(key_difference(&old, &new, &before, &after));
    assert_null(before.type);
    assert_string_equal(after.name, "M");
    assert_true(key_difference(&new, &old, &before, &after));
    assert_string_equal(before.name, "M");
    assert_null(after.type);
    str_clear(&new);
    key_add(&new, "flag", "", "-b");
    key_add(&new, "flag", "", "-a");
    assert_true(key_difference(&old, &new, &before, &after));
    assert_string_equal(before.value, "-a");
    assert_string_equal(after.value, "-b");
    str_free(&old);
    str_free(&new);
}

/* ---- Entries ----------------------------------------------------------------------------------
 */

static void test_use_is_noted_now_and_then(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct cache cache;
    struct str bytes = {0}, got = {0};
    struct digest key = digest_bytes("key", 3);
    struct stat info;
    cache_open(&cache, path_join(&arena, folder, "uses"), &diags);
    str_adds(&bytes, "bytes");
    assert_false(cache_get(&cache, CACHE_LAST, &key, &got));
    cache_put(&cache, CACHE_LAST, &key, &bytes, &diags);
    assert_true(cache_get(&cache, CACHE_LAST, &key, &got));
    assert_string_equal(got.data, "bytes");
    assert_false(cache_get(&cache, CACHE_NAMES, &key, &got));
    struct str hex = {0};
    digest_hex(&key, &hex);
    const char *path = arena_printf(&arena, "%s/uses/%.2s/%s-l", folder, hex.data, hex.data + 2);
    /* Used half an hour ago: left. Hours ago, or in the future by a clock that went back: now. */
    time_t now = time(NULL);
    const time_t times[][2] = {{now - 1800, now - 1800}, {now - 7200, now}, {now + 9000, now}};
    for (size_t i = 0; i < 3; i++) {
        struct timespec set[2] = {{.tv_sec = times[i][0]}, {.tv_sec = times[i][0]}};
        assert_int_equal(utimensat(AT_FDCWD, path, set, 0), 0);
        assert_true(cache_get(&cache, CACHE_LAST, &key, &got));
        assert_int_equal(stat(path, &info), 0);
        assert_in_range(info.st_mtime, times[i][1], times[i][1] + 60);
    }
    assert_int_equal(diags.count, 0);
    str_free(&hex);
    str_free(&bytes);
    str_free(&got);
    cache_close(&cache);
    diag_free(&diags);
}

static void test_no_cache(void **state)
{
    (void)state;
    struct cache cache = {0};
    struct diags diags = {0};
    struct str bytes = {0};
    struct digest key = digest_bytes("key", 3);
    cache_put(&cache, CACHE_LAST, &key, &bytes, &diags);
    assert_false(cache_get(&cache, CACHE_LAST, &key, &bytes));
    assert_int_equal(diags.count, 0);
}

/* ---- Stamps -----------------------------------------------------------------------------------
 */

static struct watch_item item_of(const char *path, enum watch_kind kind)
{
    struct watch watch;
    struct watch_item item;
    watch_init(&watch);
    watch_path(&watch, path);
    assert_int_equal(watch.count, 1);
    item = watch.items[0];
    item.kind = kind;
    item.path = path;
    watch_free(&watch);
    return item;
}

#define SECOND ((int64_t)1000000000)

static void test_when_a_stamp_stands_for_bytes(void **state)
{
    (void)state;
    const char *path = put("stamped", "one");
    struct watch_item item = item_of(path, WATCH_BYTES), copy;
    int64_t made = item.stamp.ctime_ns;
    /* Read again while the file is as young as the run, or younger: as after a clock went back. */
    const int64_t young[] = {made - 3600 * SECOND, made, made + 1, made + 2 * SECOND};
    for (size_t i = 0; i < 4; i++) {
        copy = item;
        assert_int_equal(watch_check(&copy, young[i]), WATCH_SAME_BYTES);
        copy = item;
        copy.digest.bytes[0] ^= 1; /* what was read then were other bytes */
        assert_int_equal(watch_check(&copy, young[i]), WATCH_DIFFERENT);
    }
    /* Old enough: not read, whatever the bytes. */
    copy = item;
    copy.digest.bytes[0] ^= 1;
    assert_int_equal(watch_check(&copy, made + 2 * SECOND + 1), WATCH_SAME);
    /* Any other figure of the stamp has it read. */
    for (int field = 0; field < 4; field++) {
        copy = item;
        copy.stamp.dev ^= field == 0;
        copy.stamp.ino ^= field == 1;
        copy.stamp.mtime_ns ^= field == 2;
        copy.stamp.ctime_ns ^= field == 3;
        assert_int_equal(watch_check(&copy, made + 9 * SECOND), WATCH_SAME_BYTES);
        assert_memory_equal(&copy.stamp, &item.stamp, sizeof copy.stamp);
        copy.stamp.dev++;
        copy.digest.bytes[31] ^= 1;
        assert_int_equal(watch_check(&copy, made + 9 * SECOND), WATCH_DIFFERENT);
    }
    copy = item;
    copy.stamp.size++;
    assert_int_equal(watch_check(&copy, made + 9 * SECOND), WATCH_DIFFERENT);
    /* A library is never read again. */
    copy = item;
    copy.kind = WATCH_STAMP;
    assert_int_equal(watch_check(&copy, made + 9 * SECOND), WATCH_SAME);
    assert_int_equal(watch_check(&copy, made), WATCH_DIFFERENT);
    unlink(path);
    assert_int_equal(watch_check(&item, made + 9 * SECOND), WATCH_DIFFERENT);
}

static void test_what_a_watch_notes(void **state)
{
    (void)state;
    struct watch watch;
    struct diags diags = {0};
    struct str text = {0};
    const char *file = put("noted", "text"), *gone = path_join(&arena, folder, "gone");
    watch_init(&watch);
    assert_true(file_read(file, &text, &diags));
    assert_int_equal(watch.count, 0); /* not yet started */
    watch_start(&watch);
    assert_true(file_read(file, &text, &diags));
    assert_true(file_read(file, &text, &diags));
    assert_false(file_exists(gone));
    assert_false(file_is_regular(folder));
    watch_note_names(folder);
    watch_note_names(gone);
    assert_non_null(path_real(&arena, folder, &diags));
    watch_stop();
    assert_false(file_is_dir(file));
    static const enum watch_kind kinds[] = {WATCH_BYTES, WATCH_TYPE, WATCH_TYPE, WATCH_NAMES,
                                            WATCH_LINK};
    assert_int_equal(watch.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(watch.items[i].kind, kinds[i]);
        assert_int_not_equal(watch_check(&watch.items[i], watch.since_ns), WATCH_DIFFERENT);
    }
    assert_string_equal(watch.items[1].text, "nothing");
    assert_string_equal(watch.items[2].text, "folder");
    put("gone", "now there");
    assert_int_equal(watch_check(&watch.items[1], watch.since_ns), WATCH_DIFFERENT);
    assert_int_equal(watch_check(&watch.items[3], watch.since_ns), WATCH_DIFFERENT);
    unlink(gone);
    str_free(&text);
    watch_free(&watch);
    diag_free(&diags);
}

static void test_settling(void **state)
{
    (void)state;
    struct watch watch;
    struct stat info;
    const char *path = put("library", "text");
    assert_int_equal(stat(path, &info), 0);
    watch_init(&watch);
    watch_start(&watch);
    watch_note_stamp(path, &info);
    watch_stop();
    assert_true(watch_settle(&watch));
    assert_int_equal(watch.items[0].kind, WATCH_BYTES);
    watch.items[0].kind = WATCH_STAMP;
    put("library", "text"); /* another file since */
    assert_false(watch_settle(&watch));
    watch_free(&watch);
}

/* ---- Records ----------------------------------------------------------------------------------
 */

static void test_records(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct cache cache;
    struct watch watch;
    struct str said = {0}, more = {0};
    struct digest key = digest_bytes("build", 5);
    const char *path = put("input", "one");
    cache_open(&cache, path_join(&arena, folder, "records"), &diags);
    watch_init(&watch);
    watch_path(&watch, path);
    watch_type(&watch, "/nonexistent");
    str_adds(&more, "what it said");
    assert_false(record_holds(&cache, &key, &said));
    record_put(&cache, &key, &watch, NULL, 0, &more);
    for (int i = 0; i < 2; i++) {
        assert_true(record_holds(&cache, &key, &said));
        assert_string_equal(said.data, "what it said");
    }
    put("input", "two");
    assert_false(record_holds(&cache, &key, &said));
    assert_int_equal(said.len, 0);
    put("input", "one");
    assert_true(record_holds(&cache, &key, &said));
    watch_written(&watch, path, &key); /* other bytes than those that are there */
    record_put(&cache, &key, &watch, NULL, 0, &more);
    assert_false(record_holds(&cache, &key, &said));
    /* Whatever an entry of whole bytes holds, it is no crash. */
    struct str bytes = {0}, cut = {0};
    assert_true(cache_get(&cache, CACHE_BUILD, &key, &bytes));
    for (size_t size = 0; size < bytes.len; size++) {
        str_clear(&cut);
        str_add(&cut, bytes.data, size);
        cache_put(&cache, CACHE_BUILD, &key, &cut, &diags);
        assert_false(record_holds(&cache, &key, &said));
        str_clear(&cut);
        str_add(&cut, bytes.data, bytes.len);
        cut.data[size] = (char)(cut.data[size] ^ 0x80);
        cache_put(&cache, CACHE_BUILD, &key, &cut, &diags);
        record_holds(&cache, &key, &said);
    }
    str_free(&bytes);
    str_free(&cut);
    str_free(&said);
    str_free(&more);
    watch_free(&watch);
    cache_close(&cache);
    diag_free(&diags);
}

/* ---- Job slots --------------------------------------------------------------------------------
 */

static void test_slots(void **state)
{
    (void)state;
    int ends[2];
    char got[4];
    struct jobserver jobs;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "xy", 2), 2);
    assert_true(jobserver_open(&jobs, arena_printf(&arena,
                                                   "k -j3 --jobserver-auth=1,2 "
                                                   "--jobserver-auth=%d,%d",
                                                   ends[0], ends[1])));
    assert_true(jobserver_take(&jobs));
    assert_true(jobserver_take(&jobs));
    assert_false(jobserver_take(&jobs));
    jobserver_give(&jobs);
    assert_true(jobserver_take(&jobs));
    jobserver_close(&jobs);
    assert_int_equal(read(ends[0], got, sizeof got), 2);
    assert_int_equal(got[0] + got[1], 'x' + 'y');
    assert_true(jobserver_open(&jobs, NULL));
    assert_true(jobserver_take(&jobs)); /* none: always */
    jobserver_give(&jobs);
    jobserver_close(&jobs);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_do_not_run_together),
        cmocka_unit_test(test_damaged_key),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_use_is_noted_now_and_then),
        cmocka_unit_test(test_no_cache),
        cmocka_unit_test(test_when_a_stamp_stands_for_bytes),
        cmocka_unit_test(test_what_a_watch_notes),
        cmocka_unit_test(test_settling),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
