#include "runtime_fixture.h"

#include <stdio.h>
#include <stdlib.h>
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
