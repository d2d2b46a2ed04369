#ifndef COMPILE_ANSWER_H
#define COMPILE_ANSWER_H

#include "compile/compile.h"
#include "compile/wire.h"
#include "compile/worker.h"

/* What a worker says of a unit. */
struct answer {
    enum worker_outcome outcome;
    const char *error;          /* "" for WORKER_DONE */
    const char *const *refused; /* names that exist and were not read */
    size_t refused_count;
    uint64_t resident;            /* bytes that the worker keeps */
    struct compile_result result; /* its status is the caller's to set */
};

/* Takes the fields of a WIRE_RESULT: the result's go to `arena`, the others to `passing`. False
 * when they are no answer to the unit. */
bool answer_take(struct wire_message *message, const struct compile_unit *unit, struct arena *arena,
                 struct arena *passing, struct answer *out);

/* Adds what the compiler said, and for a unit that failed which one and why. */
void answer_report(const struct answer *answer, const struct compile_unit *unit,
                   const struct cuda *cuda, struct diags *diags);

#endif
