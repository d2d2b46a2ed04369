#include "cli/lookup_list.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct parse {
    const char *path;
    struct arena *arena;
    struct diags *diags;
    struct lookup *items; /* owned */
    size_t count, cap;
};

static void add(struct parse *parse, struct lookup lookup)
{
    if (parse->count == parse->cap) {
        parse->cap = parse->cap ? parse->cap * 2 : 64;
        parse->items = mem_resize(parse->items, parse->cap, sizeof *parse->items);
    }
    parse->items[parse->count++] = lookup;
}

/* ---- Text -------------------------------------------------------------------------------------
 */

static bool blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && blank(*at))
        at++;
    return at;
}

static const char *trim(const char *start, const char *end)
{
    while (end > start && blank(end[-1]))
        end--;
    return end;
}

static const char *comment_start(const char *start, const char *end)
{
    const char *at = start;
    while (at < end && !(*at == '#' && (at == start || blank(at[-1]))))
        at++;
    return at;
}

/* The first byte of text[0..size) that no name in a text can have: of a control character, or not
 * UTF-8. NULL: none. */
static const char *bad_byte(const char *text, size_t size)
{
    for (size_t at = 0, step; at < size; at += step) {
        unsigned char byte = (unsigned char)text[at];
        step = str_utf8(text + at, size - at);
        if (!step || byte < 0x20 || byte == 0x7f)
            return text + at;
    }
    return NULL;
}

static void bad_line(struct parse *parse, uint32_t line, const char *start, const char *at,
                     const char *what)
{
    struct loc loc = {parse->path, line, (uint32_t)(at - start) + 1};
    diag_error_at(parse->diags, loc, "%s, expected MODULE:ENTRY", what);
}

static void parse_line(struct parse *parse, uint32_t line, const char *start, const char *end)
{
    if (end > start && end[-1] == '\r')
        end--;
    const char *comment = comment_start(start, end);
    const char *at = skip_blanks(start, comment), *stop = trim(at, comment);
    if (at == stop)
        return;
    const char *bad = bad_byte(at, (size_t)(stop - at));
    const char *colon = memchr(at, ':', (size_t)(stop - at));
    if (bad) {
        bad_line(parse, line, start, bad, "this byte is of no printable UTF-8 text");
    } else if (!colon) {
        bad_line(parse, line, start, at,
                 arena_printf(parse->arena, "found '%.*s'", (int)(stop - at), at));
    } else if (colon == at || colon + 1 == stop) {
        bad_line(parse, line, start, colon,
                 colon == at ? "no module before ':'" : "no entry behind ':'");
    } else if (blank(colon[-1]) || blank(colon[1])) {
        bad_line(parse, line, start, colon, "a blank beside ':'");
    } else {
        const char *place = comment < end ? skip_blanks(comment + 1, end) : end;
        size_t size = (size_t)(trim(place, end) - place);
        add(parse, (struct lookup){
                       .module = arena_strndup(parse->arena, at, (size_t)(colon - at)),
                       .entry = arena_strndup(parse->arena, colon + 1, (size_t)(stop - colon - 1)),
                       .place = arena_strndup(parse->arena, place, size),
                       .line = line,
                   });
    }
}

static void parse_text(struct parse *parse, const char *bytes, size_t size)
{
    const char *end = bytes + size;
    for (uint32_t line = 1; bytes < end; line++) {
        const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
        stop = stop ? stop : end;
        parse_line(parse, line, bytes, stop);
        bytes = stop < end ? stop + 1 : end;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static bool bad_object(struct parse *parse, size_t index, const char *what)
{
    return diag_error_at(parse->diags, (struct loc){.file = parse->path}, "lookup %zu: %s",
                         index + 1, what);
}

static bool check_keys(struct parse *parse, size_t index, json_t *object)
{
    static const char *const keys[] = {"module", "entry", "count", "file", "line"};
    enum {
        KEYS = sizeof keys / sizeof *keys
    };
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < KEYS && strcmp(keys[i], key) != 0)
            i++;
        if (i < KEYS)
            continue;
        const char *nearest = str_nearest(key, keys, KEYS);
        return bad_object(parse, index,
                          arena_printf(parse->arena, "unknown key '%s'%s%s%s", key,
                                       nearest ? " (did you mean '"
                                               : ", expected module, entry, count, file or line",
                                       nearest ? nearest : "", nearest ? "'?)" : ""));
    }
    return true;
}

/* A name, NULL after an error. */
static const char *name_of(struct parse *parse, size_t index, const json_t *object, const char *key)
{
    const char *name = json_string_value(json_object_get(object, key));
    if (name && name[0] && strlen(name) == json_string_length(json_object_get(object, key)))
        return arena_strdup(parse->arena, name);
    bad_object(parse, index,
               arena_printf(parse->arena, "'%s' is %s, expected a name", key,
                            name                           ? "empty or has a NUL"
                            : json_object_get(object, key) ? "no string"
                                                           : "missing"));
    return NULL;
}

/* A whole number, 0 when it is left out; false after an error. */
static bool number_of(struct parse *parse, size_t index, const json_t *object, const char *key,
                      uint64_t *out_number)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = value ? json_integer_value(value) : 0;
    *out_number = (uint64_t)number;
    if (!value || (json_is_integer(value) && number >= 0))
        return true;
    return bad_object(parse, index,
                      arena_printf(parse->arena, "'%s' is no whole number from 0 on", key));
}

static void parse_object(struct parse *parse, size_t index, json_t *object)
{
    struct lookup lookup = {.place = ""};
    uint64_t line;
    if (!json_is_object(object)) {
        bad_object(parse, index, "expected an object with 'module' and 'entry'");
        return;
    }
    if (!check_keys(parse, index, object))
        return;
    lookup.module = name_of(parse, index, object, "module");
    lookup.entry = name_of(parse, index, object, "entry");
    bool counted = number_of(parse, index, object, "count", &lookup.count);
    bool placed = number_of(parse, index, object, "line", &line);
    const json_t *file = json_object_get(object, "file");
    if (file && !json_is_string(file))
        placed = bad_object(parse, index, "'file' is no string");
    else if (file)
        lookup.place = arena_printf(parse->arena, "%s:%" JSON_INTEGER_FORMAT,
                                    json_string_value(file), (json_int_t)line);
    if (lookup.module && lookup.entry && counted && placed)
        add(parse, lookup);
}

static void parse_json(struct parse *parse, const char *bytes, size_t size)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error),
           *object;
    json_t *list = json_is_object(root) ? json_object_get(root, "lookups") : root;
    if (!root)
        diag_error_at(parse->diags, (struct loc){parse->path, (uint32_t)error.line, 0},
                      "bad JSON: %s", error.text);
    else if (!json_is_array(list))
        diag_error_at(parse->diags, (struct loc){.file = parse->path},
                      "no list of lookups, neither by itself nor as 'lookups' of an object");
    size_t index;
    json_array_foreach(list, index, object)
    {
        parse_object(parse, index, object);
    }
    json_decref(root);
}

/* ---- Both -------------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;
    int order = strcmp(x->module, y->module);
    if (!order)
        order = strcmp(x->entry, y->entry);
    if (order || x->line != y->line)
        return order ? order : x->line < y->line ? -1 : 1;
    return strcmp(x->place, y->place);
}

/* Sorts and joins what is listed twice; the first place stays. */
static void join(struct parse *parse, struct lookup_list *out)
{
    out->items = arena_alloc(parse->arena, parse->count, sizeof *out->items);
    if (parse->count)
        qsort(parse->items, parse->count, sizeof *parse->items, by_name);
    for (size_t i = 0; i < parse->count; i++) {
        const struct lookup *item = &parse->items[i];
        struct lookup *last = out->count ? &out->items[out->count - 1] : NULL;
        if (last && strcmp(last->module, item->module) == 0 &&
            strcmp(last->entry, item->entry) == 0) {
            last->count =
                item->count > INT64_MAX - last->count ? INT64_MAX : last->count + item->count;
            if (!last->place[0])
                last->place = item->place;
        } else {
            out->items[out->count++] = *item;
        }
    }
}

bool lookup_list_parse(const char *path, const char *bytes, size_t size, struct arena *arena,
                       struct lookup_list *out_list, struct diags *diags)
{
    struct parse parse = {.path = path, .arena = arena, .diags = diags};
    size_t errors = diags->errors, at = 0;
    *out_list = (struct lookup_list){0};
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
        bytes += 3;
        size -= 3;
    }
    while (at < size && (blank(bytes[at]) || bytes[at] == '\n' || bytes[at] == '\r'))
        at++;
    if (memchr(bytes, '\0', size))
        diag_error_at(diags, (struct loc){.file = path},
                      "no list of lookups: it has a NUL byte, expected text or JSON");
    else if (at < size && (bytes[at] == '[' || bytes[at] == '{'))
        parse_json(&parse, bytes, size);
    else
        parse_text(&parse, bytes, size);
    join(&parse, out_list);
    free(parse.items);
    return diags->errors == errors;
}
