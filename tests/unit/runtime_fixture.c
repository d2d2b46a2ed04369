#include "runtime_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void keep_message(void *user, kpk_severity severity, const char *text)
{
    struct fixture *fixture = user;
    snprintf(fixture->message, sizeof(fixture->message), "%s", text);
    fixture->severity = severity;
    fixture->messages++;
}

kpk_open_desc fixture_desc(struct fixture *fixture)
{
    kpk_open_desc desc = {
        .message = keep_message, .message_user = fixture, .symbol = fake_cuda_symbol};
    return desc;
}

kpk_status fixture_reopen(struct fixture *fixture)
{
    kpk_close(fixture->image);
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_status status =
        kpk_open_memory(fixture->bytes.data, fixture->bytes.size, &desc, &fixture->image);
    return status;
}

int fixture_start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL)
        return 1;
    fixture->bytes = build_write(&build_small);
    fake_cuda_reset();
    kpk_status status = fixture_reopen(fixture);
    if (status != KPK_OK)
        fprintf(stderr, "%s: %s\n", kpk_status_text(status), fixture->message);
    *state = fixture;
    return status != KPK_OK;
}

int fixture_stop(void **state)
{
    struct fixture *fixture = *state;
    kpk_close(fixture->image);
    free(fixture->bytes.data);
    free(fixture);
    return (int)fake_cuda_state()->libraries;
}

kpk_status fixture_launch(struct fixture *fixture, const char *module, const char *entry,
                          uint32_t smem)
{
    kpk_kernel kernel = kpk_resolve(fixture->image, module, entry);
    return kpk_launch(fixture->image, kernel, grid_of(1, 1, 1), smem, NULL, NULL);
}

const char *fixture_file(const struct build_bytes *bytes)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/kpk-test-XXXXXX");
    int file = mkstemp(path);
    if (file < 0 || write(file, bytes->data, bytes->size) != (ssize_t)bytes->size)
        abort();
    close(file);
    return path;
}

static void must(bool condition)
{
    if (!condition)
        abort();
}

void fixture_use_all(kpk_image *image)
{
    kpk_image_info info;
    must(kpk_get_image(image, &info) == KPK_OK);
    size_t length = strlen(info.target) + strlen(info.arch) + strlen(info.stamp);
    for (uint32_t i = 0; i < info.module_count; i++) {
        kpk_module_info module;
        must(kpk_get_module(image, i, &module) == KPK_OK);
        length += strlen(module.name) + strlen(module.source) + strlen(module.origin);
        for (uint32_t p = 0; p < module.constant_count; p++) {
            const char *name;
            int64_t value;
            must(kpk_get_constant(image, i, p, &name, &value) == KPK_OK);
            length += strlen(name);
            kpk_constant(image, module.name, name, &value);
        }
        for (uint32_t p = 0; p < module.flag_count; p++) {
            const char *text;
            must(kpk_get_flag(image, i, p, &text) == KPK_OK);
            length += strlen(text);
        }
    }
    for (uint32_t i = 0; i < info.entry_count; i++) {
        kpk_entry_info entry;
        must(kpk_get_entry(image, i, &entry) == KPK_OK);
        length += strlen(entry.module) + strlen(entry.name) + strlen(entry.twin_of);
        kpk_resolve(image, entry.module, entry.name);
        kpk_preload(image, &entry.kernel, 1);
    }
    for (uint32_t i = 0; i < info.lever_count; i++) {
        kpk_lever lever;
        must(kpk_get_lever(image, i, &lever) == KPK_OK);
        length += strlen(lever.name) + strlen(lever.env) + strlen(lever.text);
    }
    for (uint32_t i = 0; i < info.absent_count; i++) {
        kpk_absent_info absent;
        must(kpk_get_absent(image, i, &absent) == KPK_OK);
        length += strlen(absent.module) + strlen(absent.entry) + strlen(absent.reason);
    }
    must(length < 1000000);
    kpk_resolve(image, "alpha", "none");
    kpk_resolve(image, "none", "none");
    must(kpk_misses_json(image, NULL, 0) > 0);
    kpk_verify(image);
}

bool fixture_fork_wipes(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        abort();
    bool wiped = madvise(page, size, MADV_WIPEONFORK) == 0;
    page[0] = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(page[0]);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    munmap(page, size);
    if (!wiped || status != 0)
        printf("# SKIP MADV_WIPEONFORK does nothing here\n");
    return wiped && status == 0;
}
