#ifndef CACHE_CACHE_KEY_H
#define CACHE_CACHE_KEY_H

#include <stdbool.h>

#include "base/digest.h"
#include "base/str.h"

/* The text that a key is the digest of: fields of a type, a name and a value, each with its length,
 * so that no two lists of fields give one text. */

struct key_field {
    const char *type, *name, *value; /* borrowed */
};

void key_add(struct str *key, const char *type, const char *name, const char *value);
void key_add_digest(struct str *key, const char *type, const char *name,
                    const struct digest *digest);
struct digest key_digest(const struct str *key);

/* Takes the field at *at, which starts as 0; false at the end, and where the bytes are no key. */
bool key_next(const struct str *key, size_t *at, struct key_field *out_field);

/* The first field, in the new key's order, that differs between two keys; type NULL: that key has
 * none. Fields without a name are compared by position. False when there is no difference. */
bool key_difference(const struct str *old, const struct str *new, struct key_field *out_old,
                    struct key_field *out_new);

#endif
