#ifndef RUNTIME_FIXTURE_H
#define RUNTIME_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "../fake/cuda.h"
#include "kpk_build.h"
#include "runtime/kpk.h"

/* build_small, opened from memory over the fake driver, its messages kept. */
struct fixture {
    struct build_bytes bytes;
    kpk_image *image;
    char message[1024]; /* the last one */
    kpk_severity severity;
    unsigned messages;
};

/* cmocka's set-up and tear-down; *state is the fixture. */
int fixture_start(void **state);
int fixture_stop(void **state);

/* A desc over the fake driver whose messages go to the fixture. */
kpk_open_desc fixture_desc(struct fixture *fixture);

/* Closes the image and opens the fixture's bytes again. */
kpk_status fixture_reopen(struct fixture *fixture);

/* Writes the bytes to a new file in out/tests or /tmp; the path is static. */
const char *fixture_file(const struct build_bytes *bytes);

/* Holds when the last message has that part; for files that include cmocka.h. */
#define assert_message(fixture, part)                                                              \
    do {                                                                                           \
        if (strstr((fixture)->message, part) == NULL)                                              \
            fail_msg("'%s' does not say '%s'", (fixture)->message, part);                          \
    } while (0)

/* Launches the entry over one block, with nothing to pass. */
kpk_status fixture_launch(struct fixture *fixture, const char *module, const char *entry,
                          uint32_t smem);

/* Uses all that the runtime offers on an image that may be hostile: nothing may crash. Aborts when
 * what was opened does not answer. */
void fixture_use_all(kpk_image *image);

/* Whether MADV_WIPEONFORK does what it says, which qemu-user only pretends; prints a reason to skip
 * when not. */
bool fixture_fork_wipes(void);

static inline kpk_grid grid_of(uint32_t x, uint32_t y, uint32_t z)
{
    kpk_grid grid = {x, y, z};
    return grid;
}

#endif
