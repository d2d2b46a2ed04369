#ifndef CLI_CODE_H
#define CLI_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "cli/view.h"
#include "compile/cubin.h"

/* The machine code that an image holds. */

/* A cubin out of an image. */
struct code_object {
    void *bytes; /* owned; NULL when it cannot be had */
    uint64_t size;
    struct arena arena; /* owns what `cubin` points at */
    struct cubin cubin;
};

/* Decodes an object's cubin, by its index in the image; `code_read` also reads its ELF. False with
 * an error; code_free in both cases. */
bool code_bytes(struct view *view, uint32_t object, struct code_object *out_object);
bool code_read(struct view *view, const char *module, uint32_t object,
               struct code_object *out_object);
void code_free(struct code_object *object);

/* NULL when the cubin does not hold it. */
const struct cubin_entry *code_find(const struct cubin *cubin, const char *symbol);

/* The digest of each entry's .text section, by the entry's index in the image; `out_digests` has
 * room for all. Two entries with one digest do the same, given the same constants and launch. Each
 * cubin that cannot be read is an error. */
bool code_digests(struct view *view, struct digest *out_digests);

#endif
