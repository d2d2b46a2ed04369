#ifndef CLI_HTML_H
#define CLI_HTML_H

#include <stdint.h>

#include "base/str.h"

/* HTML out of texts that images hold: whatever they say, it is text. */

/* Adds a text as content or within a double-quoted attribute; bytes that report_name escapes are
 * escaped the same way first. */
void html_text(struct str *out, const char *text);

/* A name of an image's, which may break behind '_', ':', '/', '.' and '-' but copies as it is, and
 * whose writing direction ends with it. Content only. */
void html_name(struct str *out, const char *name);

/* "1,234,567" */
void html_count(struct str *out, uint64_t value);

/* Cells of a table row: text; a figure, by which the table may be sorted; nothing known. */
void html_text_cell(struct str *out, const char *text);
void html_count_cell(struct str *out, uint64_t value);
void html_none_cell(struct str *out);

#endif
