#include "cache/cache_key.h"

#include <stdint.h>
#include <string.h>

static void add_text(struct str *key, const char *text)
{
    uint32_t size = (uint32_t)strlen(text);
    str_add(key, &size, sizeof size);
    str_add(key, text, size + 1);
}

void key_add(struct str *key, const char *type, const char *name, const char *value)
{
    add_text(key, type);
    add_text(key, name);
    add_text(key, value);
}

void key_add_digest(struct str *key, const char *type, const char *name,
                    const struct digest *digest)
{
    struct str hex = {0};
    digest_hex(digest, &hex);
    key_add(key, type, name, hex.data);
    str_free(&hex);
}

struct digest key_digest(const struct str *key)
{
    return digest_bytes(key->data, key->len);
}

static bool take_text(const struct str *key, size_t *at, const char **out)
{
    uint32_t size;
    if (key->len - *at < sizeof size)
        return false;
    memcpy(&size, key->data + *at, sizeof size);
    size_t start = *at + sizeof size;
    if (key->len - start <= size || strlen(key->data + start) != size)
        return false;
    *out = key->data + start;
    *at = start + size + 1;
    return true;
}

bool key_next(const struct str *key, size_t *at, struct key_field *out_field)
{
    *out_field = (struct key_field){0};
    return take_text(key, at, &out_field->type) && take_text(key, at, &out_field->name) &&
           take_text(key, at, &out_field->value);
}

/* The field of this type and name, the n-th (from 0) of them. */
static bool find(const struct str *key, const struct key_field *like, size_t n,
                 struct key_field *out)
{
    for (size_t at = 0; key_next(key, &at, out);)
        if (strcmp(out->type, like->type) == 0 && strcmp(out->name, like->name) == 0 && !n--)
            return true;
    *out = (struct key_field){0};
    return false;
}

/* How many fields like the one that ends at `end` come before it. */
static size_t place(const struct str *key, const struct key_field *like, size_t end)
{
    struct key_field field;
    size_t n = 0;
    for (size_t at = 0; key_next(key, &at, &field) && at < end;)
        n += strcmp(field.type, like->type) == 0 && strcmp(field.name, like->name) == 0;
    return n;
}

bool key_difference(const struct str *old, const struct str *new, struct key_field *out_old,
                    struct key_field *out_new)
{
    for (size_t at = 0; key_next(new, &at, out_new);)
        if (!find(old, out_new, place(new, out_new, at), out_old) ||
            strcmp(out_old->value, out_new->value) != 0)
            return true;
    for (size_t at = 0; key_next(old, &at, out_old);)
        if (!find(new, out_old, place(old, out_old, at), out_new))
            return true;
    *out_old = *out_new = (struct key_field){0};
    return false;
}
