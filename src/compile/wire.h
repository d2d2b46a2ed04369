#ifndef COMPILE_WIRE_H
#define COMPILE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "compile/compile.h"

/* Messages between the tool and its workers: a header, then fields in a fixed order. Both ends are
 * the same executable, so numbers are in the machine's order; what arrives is checked all the same.
 */

enum wire_type {
    WIRE_START = 1, /* to the worker, once: NVRTC's path, CUDA's header folders */
    WIRE_READY,     /* from it: what NVRTC says of itself, or why it cannot be used */
    WIRE_JOB,       /* to it: one unit */
    WIRE_RESULT,    /* from it */
};

/* Starts a message at the end of `out`; returns where, for wire_end. */
size_t wire_begin(struct str *out, enum wire_type type);
void wire_end(struct str *out, size_t begin);
void wire_u64(struct str *out, uint64_t value);
void wire_bytes(struct str *out, const void *bytes, size_t size);
void wire_text(struct str *out, const char *text);
void wire_texts(struct str *out, const char *const *texts, size_t count);
void wire_inputs(struct str *out, const struct compile_input *inputs, size_t count);

enum wire_state {
    WIRE_MORE, /* not whole yet */
    WIRE_WHOLE,
    WIRE_GARBAGE, /* not one of our messages */
};

struct wire_message {
    enum wire_type type;
    const char *at, *end; /* of the fields that are left; borrowed */
    bool bad;             /* a field ran past the end: what was read is not to be used */
};

/* Looks at bytes[0..size); on WIRE_WHOLE out_used says how many the message takes. */
enum wire_state wire_next(const char *bytes, size_t size, struct wire_message *out_message,
                          size_t *out_used);

/* Each takes the next field; after a bad one, zero, "" or nothing. Texts are copied to the arena
 * and never hold a NUL. */
uint64_t wire_take_u64(struct wire_message *message);
const void *wire_take_bytes(struct wire_message *message, struct arena *arena, size_t *out_size);
const char *wire_take_text(struct wire_message *message, struct arena *arena);
const char **wire_take_texts(struct wire_message *message, struct arena *arena, size_t *out_count);
struct compile_input *wire_take_inputs(struct wire_message *message, struct arena *arena,
                                       size_t *out_count);

/* Whether every field was there and none is left over. */
bool wire_done(const struct wire_message *message);

#endif
