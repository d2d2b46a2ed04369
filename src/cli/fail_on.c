#include "cli/fail_on.h"

#include <string.h>

#include "base/str.h"

static bool unknown(struct cli *cli, const char *word, const char *const *words, size_t count)
{
    struct str list = {0};
    const char *nearest = str_nearest(word, words, count);
    for (size_t i = 0; i < count; i++)
        str_addf(&list, "%s%s", i ? (i + 1 < count ? ", " : " or ") : "", words[i]);
    if (nearest)
        cli_usage(cli, "option '--fail-on' has no word '%s' (did you mean '%s'?)", word, nearest);
    else
        cli_usage(cli, "option '--fail-on' has no word '%s', expected %s", word, str_text(&list));
    str_free(&list);
    return false;
}

bool fail_on_parse(struct cli *cli, const char *text, const char *const *words, size_t count,
                   const char *valued, const char **out_values)
{
    for (size_t i = 0; i < count; i++)
        out_values[i] = NULL;
    while (text) {
        const char *comma = strchr(text, ',');
        size_t length = comma ? (size_t)(comma - text) : strlen(text);
        char *word = arena_strndup(&cli->arena, text, length), *equals = strchr(word, '=');
        if (equals)
            *equals = '\0';
        size_t i = 0;
        while (i < count && strcmp(words[i], word) != 0)
            i++;
        if (i == count)
            return unknown(cli, word, words, count);
        if (equals && words[i] != valued) {
            cli_usage(cli, "'%s' of option '--fail-on' takes no value", word);
            return false;
        }
        out_values[i] = equals ? equals + 1 : "";
        text = comma ? comma + 1 : NULL;
    }
    return true;
}
