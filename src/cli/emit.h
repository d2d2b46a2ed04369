#ifndef CLI_EMIT_H
#define CLI_EMIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* JSON for --json: every value is there, or the tool ends for want of memory. New references;
 * emit_set, emit_append and emit_print take over the one that they are given. */

json_t *emit_object(void);
json_t *emit_array(void);
/* Text that is not UTF-8, and a key of emit_set, is escaped as report_name does. */
json_t *emit_string(const char *text);
json_t *emit_integer(int64_t value);
json_t *emit_count(uint64_t value);
json_t *emit_bool(bool value);
/* null for "" and for NULL. */
json_t *emit_string_or_null(const char *text);
json_t *emit_count_or_null(bool present, uint64_t value);

void emit_set(json_t *object, const char *key, json_t *value);
void emit_append(json_t *array, json_t *value);

/* Prints it on standard output, with every control character escaped. */
void emit_print(json_t *value);

#endif
