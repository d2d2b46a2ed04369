#include "cli/html.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_escaped(struct str *out, const char *text, const char *breaks)
{
    struct str plain = {0};
    str_add_printable(&plain, text, strlen(text));
    for (size_t i = 0; i < plain.len; i++) {
        char byte = plain.data[i];
        switch (byte) {
        case '&':
            str_adds(out, "&amp;");
            break;
        case '<':
            str_adds(out, "&lt;");
            break;
        case '>':
            str_adds(out, "&gt;");
            break;
        case '"':
            str_adds(out, "&quot;");
            break;
        case '\'':
            str_adds(out, "&#39;");
            break;
        default:
            str_addc(out, byte);
        }
        if (strchr(breaks, byte))
            str_adds(out, "<wbr>");
    }
    str_free(&plain);
}

void html_text(struct str *out, const char *text)
{
    add_escaped(out, text, "");
}

void html_name(struct str *out, const char *name)
{
    str_adds(out, "<bdi>");
    add_escaped(out, name, "_:/.-");
    str_adds(out, "</bdi>");
}

void html_count(struct str *out, uint64_t value)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, value);
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            str_addc(out, ',');
        str_addc(out, digits[i]);
    }
}

void html_text_cell(struct str *out, const char *text)
{
    str_adds(out, "<td>");
    html_text(out, text);
    str_adds(out, "</td>");
}

void html_count_cell(struct str *out, uint64_t value)
{
    str_addf(out, "<td class=\"num\" data-v=\"%" PRIu64 "\">", value);
    html_count(out, value);
    str_adds(out, "</td>");
}

void html_none_cell(struct str *out)
{
    str_adds(out, "<td class=\"num none\">&ndash;</td>");
}
