#include "cli/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static json_t *must(json_t *value)
{
    if (!value) {
        fputs("kpack: error: out of memory\n", stderr);
        exit(1);
    }
    return value;
}

json_t *emit_object(void)
{
    return must(json_object());
}

json_t *emit_array(void)
{
    return must(json_array());
}

json_t *emit_string(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    struct str escaped = {0}; /* not UTF-8 */
    str_add_printable(&escaped, text, strlen(text));
    value = json_string(str_text(&escaped));
    str_free(&escaped);
    return must(value);
}

json_t *emit_integer(int64_t value)
{
    return must(json_integer(value));
}

json_t *emit_count(uint64_t value)
{
    return must(json_integer((json_int_t)value));
}

json_t *emit_bool(bool value)
{
    return json_boolean(value);
}

json_t *emit_string_or_null(const char *text)
{
    return text && text[0] ? emit_string(text) : json_null();
}

json_t *emit_count_or_null(bool present, uint64_t value)
{
    return present ? emit_count(value) : json_null();
}

void emit_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set(object, key, value) != 0) { /* not UTF-8 */
        struct str escaped = {0};
        str_add_printable(&escaped, key, strlen(key));
        if (json_object_set(object, str_text(&escaped), value) != 0)
            must(NULL);
        str_free(&escaped);
    }
    json_decref(value);
}

void emit_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        must(NULL);
}

void emit_print(json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2));
    struct str line = {0};
    if (!text)
        must(NULL);
    for (const char *at = text; *at; at++) {
        /* In a string: DEL and, as C2 80 to C2 9F, what drives some terminals too. */
        unsigned char byte = (unsigned char)*at, next = (unsigned char)at[1];
        bool wide = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        if (byte == 0x7f || wide)
            str_addf(&line, "\\u%04X", wide ? next : byte);
        else
            str_addc(&line, *at);
        at += wide;
    }
    printf("%s\n", str_text(&line));
    str_free(&line);
    free(text);
    json_decref(value);
}
