/* Linked with --wrap for the allocators, madvise, mmap, pread and fstat (see the Makefile). */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "build_bundle.h"
#include "runtime_fixture.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
int __real_madvise(void *address, size_t size, int advice);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);

ssize_t __real_pread(int file, void *buffer, size_t size, off_t offset);
int __real_fstat(int file, struct stat *info);

ssize_t __wrap_pread(int file, void *buffer, size_t size, off_t offset);
int __wrap_fstat(int file, struct stat *info);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);
int __wrap_madvise(void *address, size_t size, int advice);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);

static bool counting;
static unsigned long allocations, fail_at;
static long live;
static bool refuse_madvise, refuse_mmap, refuse_fstat;
static int pread_error; /* of the next pread; 0: none */

static bool fails(void)
{
    return counting && ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
    void *memory = fails() ? NULL : __real_malloc(size);
    live += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = fails() ? NULL : __real_calloc(count, size);
    live += memory != NULL;
    return memory;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory = fails() ? NULL : __real_realloc(old, size);
    live += memory != NULL && old == NULL;
    return memory;
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    errno = EINVAL;
    return refuse_madvise ? -1 : __real_madvise(address, size, advice);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    return refuse_mmap ? MAP_FAILED : __real_mmap(address, size, protection, flags, file, offset);
}

/* Every pread, while `reads` points at something. */
struct reads {
    unsigned count;
    uint64_t first, end; /* of the bytes asked for */
};
static struct reads *reads;

static void note_read(uint64_t offset, size_t size)
{
    if (reads == NULL)
        return;
    if (reads->count == 0 || offset < reads->first)
        reads->first = offset;
    if (reads->count == 0 || offset + size > reads->end)
        reads->end = offset + size;
    reads->count++;
}

ssize_t __wrap_pread(int file, void *buffer, size_t size, off_t offset)
{
    note_read((uint64_t)offset, size);
    if (pread_error == 0)
        return __real_pread(file, buffer, size, offset);
    errno = pread_error;
    pread_error = 0;
    return -1;
}

int __wrap_fstat(int file, struct stat *info)
{
    errno = EIO;
    return refuse_fstat ? -1 : __real_fstat(file, info);
}

enum step {
    OPEN,
    BIND,
    BIND_SECOND,
    LAUNCH,
    PRELOAD,
    MISS,
    READ_BLOB,
    VERIFY,
    OVERLAY,
    STEPS,
};

static struct fake_cuda *(*find_state)(void);

/* The driver is a library, so that its own allocations are not counted. */
static int find_driver(void **state)
{
    (void)state;
    void *driver = dlopen(FAKE "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *address = driver == NULL ? NULL : dlsym(driver, "fake_cuda_state");
    memcpy(&find_state, &address, sizeof(address));
    return address == NULL;
}

static kpk_status lay_over_itself(kpk_image *image)
{
    kpk_image *overlay = NULL;
    long before = live;
    kpk_status status = kpk_overlay(image, image, &overlay);
    if (status == KPK_OK)
        assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    else
        assert_null(overlay);
    kpk_close(overlay);
    assert_int_equal(live, before);
    return status;
}

static kpk_status run_step(enum step step, const char *path, size_t size, kpk_image **image)
{
    kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
    kpk_kernel kernel = *image == NULL ? (kpk_kernel){0} : kpk_resolve(*image, "beta", "big");
    static char cubin[200000];
    switch (step) {
    case OPEN:
        return kpk_open(path, &desc, image);
    case BIND:
        return kpk_bind(*image, 0);
    case BIND_SECOND:
        return kpk_bind(*image, 1);
    case LAUNCH:
        return kpk_launch(*image, kernel, grid_of(1, 1, 1), 0, NULL, NULL);
    case PRELOAD:
        return kpk_preload(*image, NULL, 0);
    case MISS: {
        size_t before = kpk_unexpected_absences(*image, NULL, 0);
        kpk_resolve(*image, "alpha", "missing");
        return kpk_unexpected_absences(*image, NULL, 0) > before ? KPK_OK : KPK_ERR_MEMORY;
    }
    case READ_BLOB:
        return kpk_read_blob(*image, 0, cubin, size);
    case VERIFY:
        return kpk_verify(*image);
    default:
        return lay_over_itself(*image);
    }
}

/* Each allocation of each step fails once: the step says so, nothing is lost, and it works when
 * tried again. Returns how many there were. */
static unsigned long fail_each_allocation(const struct build_bytes *bytes, size_t cubin)
{
    const char *path = fixture_file(bytes);
    unsigned long total = 0;
    for (enum step failing = OPEN; failing < STEPS; failing++) {
        for (unsigned long n = 1;; n++) {
            long before = live;
            kpk_image *image = NULL;
            bool failed = false;
            for (enum step step = OPEN; step < STEPS; step++) {
                allocations = 0;
                fail_at = n;
                counting = step == failing;
                kpk_status status = run_step(step, path, cubin, &image);
                counting = false;
                failed = failed || (step == failing && allocations >= n);
                if (step == failing && failed) {
                    assert_int_equal(status, KPK_ERR_MEMORY);
                    if (step == OPEN) {
                        assert_null(image);
                        assert_int_equal(live, before);
                    }
                    status = run_step(step, path, cubin, &image);
                }
                assert_int_equal(status, KPK_OK);
            }
            kpk_close(image);
            assert_int_equal(live, before);
            assert_int_equal(find_state()->libraries, 0);
            if (!failed)
                break;
            total++;
        }
    }
    unlink(path);
    return total;
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    find_state()->device_count = 2;
    struct build_bytes bytes = build_write(&build_small);
    /* open 7, bind 3, launch 3, preload 2 more, miss 3, ... */
    assert_true(fail_each_allocation(&bytes, 13) >= 20);
    free(bytes.data);
    bytes = build_write_long();
    assert_true(fail_each_allocation(&bytes, 150001) >= 20);
    free(bytes.data);
    /* Of a bundle the open has its table, and the bind what an image's open has. */
    bytes = build_two();
    assert_true(fail_each_allocation(&bytes, 13) >= 20);
    free(bytes.data);
}

/* An audit of all parts, each allocation failing in its turn. */
static void test_bundle_audit_without_memory(void **state)
{
    (void)state;
    struct build_bytes bytes = build_two();
    const char *path = fixture_file(&bytes);
    kpk_image *image = NULL;
    assert_int_equal(kpk_open(path, NULL, &image), KPK_OK);
    long before = live;
    unsigned long n = 0;
    kpk_status status;
    do {
        allocations = 0;
        fail_at = ++n;
        counting = true;
        status = kpk_verify(image);
        counting = false;
        assert_int_equal(status, allocations >= n ? KPK_ERR_MEMORY : KPK_OK);
        assert_int_equal(live, before);
    } while (status != KPK_OK);
    assert_true(n > 20);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

/* Which bytes of a bundle are read: to open, header and table; from then on one part's. */
static void test_bundle_reads_one_part(void **state)
{
    (void)state;
    struct build_bytes bytes = build_two();
    const char *path = fixture_file(&bytes);
    const size_t table_end =
        sizeof(struct kpk_bundle_header) + build_bundle_header(&bytes)->table_size;
    for (uint32_t part = 0; part < 2; part++) {
        const struct kpk_part_record *record = build_part(&bytes, part);
        kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
        struct reads opened = {0}, used = {0};
        kpk_image *image = NULL;
        find_state()->devices[0].major = (int)record->compute_major;
        find_state()->devices[0].minor = (int)record->compute_minor;
        reads = &opened;
        assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
        reads = &used;
        assert_int_equal(kpk_bind(image, 0), KPK_OK);
        assert_int_equal(used.count, 2); /* its header, its index */
        assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
        assert_int_equal(kpk_verify(image), KPK_OK);
        reads = NULL;
        assert_int_equal(opened.count, 2); /* the header, the table */
        assert_int_equal(opened.first, 0);
        assert_int_equal(opened.end, table_end);
        assert_int_equal(used.first, record->offset);
        assert_int_equal(used.end, record->offset + record->size);
        kpk_close(image);
    }
    find_state()->devices[0].major = 9;
    find_state()->devices[0].minor = 0;
    unlink(path);
    free(bytes.data);
}

/* A read that fails while the part is picked leaves the bundle as it was. */
static void test_bundle_reads_fail(void **state)
{
    (void)state;
    struct build_bytes bytes = build_two();
    const char *path = fixture_file(&bytes);
    kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
    kpk_image *image = NULL;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    pread_error = EIO;
    assert_int_equal(kpk_bind(image, 0), KPK_ERR_IO);
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_ABSENT_NOT_BOUND);
    pread_error = EIO;
    assert_int_equal(kpk_verify(image), KPK_ERR_IO);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

static void test_reads_fail(void **state)
{
    (void)state;
    struct build_bytes bytes = build_write(&build_small);
    const char *path = fixture_file(&bytes);
    kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
    kpk_image *image = NULL;
    pread_error = EIO;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_ERR_IO);
    refuse_fstat = true;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_ERR_IO);
    refuse_fstat = false;
    pread_error = EINTR;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(pread_error, 0);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    /* What may pass is tried again at the next use. */
    pread_error = EIO;
    kpk_kernel one = kpk_resolve(image, "alpha", "one");
    assert_int_equal(kpk_preload(image, &one, 1), KPK_ERR_IO);
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_PRESENT);
    assert_int_equal(kpk_preload(image, &one, 1), KPK_OK);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

static void preload(kpk_image *image, const char *module, const char *entry)
{
    kpk_kernel kernel = kpk_resolve(image, module, entry);
    assert_int_equal(kpk_preload(image, &kernel, 1), KPK_OK);
}

/* A group's bytes and its decoder live until its last cubin is loaded, or until kpk_trim; after an
 * open there is the index and no more. */
static void test_what_is_kept(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct build_bytes bytes = way % 2 == 0 ? build_write(&build_small) : build_write_long();
        const char *path = fixture_file(&bytes);
        kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
        kpk_image *image = NULL;
        if (way < 2)
            assert_int_equal(kpk_open_memory(bytes.data, bytes.size, &desc, &image), KPK_OK);
        else
            assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
        assert_int_equal(kpk_bind(image, 0), KPK_OK);
        kpk_trim(image); /* of the decoder that bind makes */
        long bound = live;
        preload(image, "alpha", "one");
        long kept = live;
        assert_true(kept > bound);
        preload(image, "alpha", "two");
        assert_int_equal(live, kept);
        kpk_trim(image);
        assert_int_equal(live, bound);
        preload(image, "beta", "big");
        preload(image, "beta", "plain");
        preload(image, "alpha", "one");
        assert_true(live > bound);
        preload(image, "gamma", "bare");
        assert_int_equal(live, bound);
        kpk_close(image);
        unlink(path);
        free(bytes.data);
    }
}

/* What a group that is decoded to its end keeps is its bytes and, for the next one, a context. */
static void test_packed_bytes_are_not_kept(void **state)
{
    (void)state;
    struct build_bytes bytes = build_write_long();
    const char *path = fixture_file(&bytes);
    kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
    kpk_image *image = NULL;
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    preload(image, "alpha", "one");
    long kept = live;
    preload(image, "beta", "plain");
    assert_int_equal(live, kept);
    preload(image, "gamma", "bare");
    assert_int_equal(live, kept - 1);
    kpk_close(image);
    unlink(path);
    free(bytes.data);
}

/* Without MADV_WIPEONFORK the pid tells. */
static void test_fork_without_the_page(void **state)
{
    (void)state;
    struct build_bytes bytes = build_write(&build_small);
    for (int way = 0; way < 2; way++) {
        kpk_image *image = NULL;
        kpk_open_desc desc = {.driver_path = FAKE "/libcuda.so.1"};
        refuse_madvise = way == 0;
        refuse_mmap = way == 1;
        kpk_status status = kpk_open_memory(bytes.data, bytes.size, &desc, &image);
        refuse_madvise = refuse_mmap = false;
        assert_int_equal(status, KPK_OK);
        assert_int_equal(kpk_bind(image, 0), KPK_OK);
        kpk_kernel one = kpk_resolve(image, "alpha", "one");
        assert_int_equal(kpk_launch(image, one, grid_of(1, 1, 1), 0, NULL, NULL), KPK_OK);
        pid_t child = fork();
        if (child == 0)
            _exit(kpk_launch(image, one, grid_of(1, 1, 1), 0, NULL, NULL) != KPK_ERR_FORKED ||
                  kpk_bind(image, 0) != KPK_ERR_FORKED);
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
        assert_int_equal(kpk_launch(image, one, grid_of(1, 1, 1), 0, NULL, NULL), KPK_OK);
        kpk_close(image);
    }
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_bundle_audit_without_memory),
        cmocka_unit_test(test_bundle_reads_one_part),
        cmocka_unit_test(test_bundle_reads_fail),
        cmocka_unit_test(test_reads_fail),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_packed_bytes_are_not_kept),
        cmocka_unit_test(test_fork_without_the_page),
    };
    return cmocka_run_group_tests_name("runtime_memory", tests, find_driver, NULL);
}
