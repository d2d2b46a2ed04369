#include "cli/compare.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "cli/emit.h"

enum {
    VALUE_COLUMNS = 26 /* what a value may take in the table; JSON has all of it */
};

const char *compare_value(struct arena *arena, const struct compare_value *value)
{
    switch (value->kind) {
    case COMPARE_COUNT:
        return arena_printf(arena, "%" PRId64, value->number);
    case COMPARE_BYTES:
        return report_size(arena, (uint64_t)value->number);
    case COMPARE_TEXT:
        return report_name(arena, value->text);
    case COMPARE_NOTHING:
        break;
    }
    return "-";
}

static const char *value_cell(struct arena *arena, const struct compare_value *value)
{
    return report_cut(arena, compare_value(arena, value), VALUE_COLUMNS);
}

const char *compare_delta(struct arena *arena, const struct change *change)
{
    const struct compare_value *before = &change->before, *after = &change->after;
    if (before->kind == COMPARE_NOTHING)
        return "added";
    if (after->kind == COMPARE_NOTHING)
        return "removed";
    if (before->kind == COMPARE_COUNT) {
        /* Constants may lie further apart than an int64_t is wide. */
        bool grew = after->number > before->number;
        uint64_t more = grew ? (uint64_t)after->number - (uint64_t)before->number
                             : (uint64_t)before->number - (uint64_t)after->number;
        return arena_printf(arena, "%c%" PRIu64, grew ? '+' : '-', more);
    }
    if (before->kind != COMPARE_BYTES)
        return "";
    /* An index may say any number of bytes. */
    uint64_t old = (uint64_t)before->number, new = (uint64_t)after->number;
    uint64_t more = new < old ? old - new : new - old;
    char sign = new < old ? '-' : '+';
    const char *size = arena_printf(arena, "%c%s", sign, report_size(arena, more));
    if (change->aspect != COMPARE_SIZE || !old)
        return size;
    return arena_printf(arena, "%s, %c%.1f%%", size, sign, 100.0 * (double)more / (double)old);
}

/* A module or an entry that one side alone has is a row of its own; other differences stand under
 * the name of what differs. */
static bool names_itself(const struct change *change)
{
    return change->aspect == COMPARE_ADDED || change->aspect == COMPARE_REMOVED;
}

char *compare_text(struct arena *arena, const struct change *change)
{
    const char *where = "";
    if (change->entry)
        where = arena_printf(arena, "entry '%s:%s'", change->module, change->entry);
    else if (change->module)
        where = arena_printf(arena, "module '%s'", change->module);
    if (names_itself(change))
        return arena_printf(arena, "%s is %s", where, compare_delta(arena, change));
    where = where[0] ? arena_printf(arena, "%s: ", where) : "";
    if (change->before.kind == COMPARE_NOTHING || change->after.kind == COMPARE_NOTHING)
        return arena_printf(arena, "%s%s %s", where, change->what, compare_delta(arena, change));
    return arena_printf(arena, "%s%s %s to %s", where, change->what,
                        value_cell(arena, &change->before), value_cell(arena, &change->after));
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void print_heads(struct table *table, const struct change *last, const struct change *change)
{
    struct arena *arena = &table->arena;
    bool same_module = last && same_text(last->module, change->module);
    if (!same_module && !(names_itself(change) && !change->entry))
        table_text(table, change->module
                              ? arena_printf(arena, "module %s", report_name(arena, change->module))
                              : "image");
    if (change->entry && !names_itself(change) &&
        !(same_module && same_text(last->entry, change->entry)))
        table_text(table, arena_printf(arena, "  entry %s", report_name(arena, change->entry)));
}

static const char *row_name(struct arena *arena, const struct change *change)
{
    const char *name = change->entry ? change->entry : change->module;
    if (names_itself(change))
        return arena_printf(arena, "%s%s %s", change->entry ? "  " : "", change->what,
                            report_name(arena, name));
    return arena_printf(arena, "%s%s", change->entry ? "    " : "  ",
                        report_name(arena, change->what));
}

void compare_print(const struct comparison *comparison, FILE *stream)
{
    struct table table = {0};
    struct arena *arena = &table.arena;
    const struct change *last = NULL;
    table_row(&table, (const char *[]){"", "before", "after", "change"}, 4);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct change *change = &comparison->items[i];
        print_heads(&table, last, change);
        table_row(&table,
                  (const char *[]){row_name(arena, change), value_cell(arena, &change->before),
                                   value_cell(arena, &change->after), compare_delta(arena, change)},
                  4);
        last = change;
    }
    table_print(&table, stream);
    table_free(&table);
}

static json_t *value_json(const struct compare_value *value)
{
    if (value->kind == COMPARE_NOTHING)
        return json_null();
    return value->kind == COMPARE_TEXT ? emit_string(value->text) : emit_integer(value->number);
}

json_t *compare_json(const struct comparison *comparison)
{
    json_t *array = emit_array();
    for (size_t i = 0; i < comparison->count; i++) {
        const struct change *change = &comparison->items[i];
        json_t *object = emit_object();
        bool named = change->aspect < COMPARE_ASPECTS;
        emit_set(object, "module", emit_string_or_null(change->module));
        emit_set(object, "entry", emit_string_or_null(change->entry));
        emit_set(object, "what", emit_string(change->what));
        emit_set(object, "aspect",
                 emit_string_or_null(named ? compare_words[change->aspect] : NULL));
        emit_set(object, "before", value_json(&change->before));
        emit_set(object, "after", value_json(&change->after));
        emit_append(array, object);
    }
    return array;
}
