#include "cli/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/code.h"

const char *const compare_words[COMPARE_ASPECTS] = {
    [COMPARE_REMOVED] = "removed", [COMPARE_ADDED] = "added",
    [COMPARE_SPILLS] = "spills",   [COMPARE_REGISTERS] = "registers",
    [COMPARE_SMEM] = "smem",       [COMPARE_STACK] = "stack",
    [COMPARE_CODE] = "code",       [COMPARE_CONSTANTS] = "constants",
    [COMPARE_FLAGS] = "flags",     [COMPARE_LEVERS] = "levers",
    [COMPARE_SIZE] = "size",
};

/* What is compared at the moment, and where differences go. */
struct comparing {
    struct view *before, *after;
    const struct digest *code_before, *code_after; /* by entry index */
    uint32_t module_before, module_after;          /* indices of modules of one name */
    const char *module, *entry;
    struct comparison *out;
};

/* ---- Values -----------------------------------------------------------------------------------
 */

static const struct compare_value nothing;

static struct compare_value count_of(uint64_t number)
{
    return (struct compare_value){.kind = COMPARE_COUNT, .number = (int64_t)number};
}

static struct compare_value integer_of(int64_t number)
{
    return (struct compare_value){.kind = COMPARE_COUNT, .number = number};
}

static struct compare_value bytes_of(uint64_t number)
{
    return (struct compare_value){.kind = COMPARE_BYTES, .number = (int64_t)number};
}

static struct compare_value bytes_if(bool known, uint64_t number)
{
    return known ? bytes_of(number) : nothing;
}

static struct compare_value text_of(const char *text)
{
    return (struct compare_value){.kind = COMPARE_TEXT, .text = text};
}

static bool same_value(const struct compare_value *a, const struct compare_value *b)
{
    return a->kind == b->kind && a->number == b->number &&
           (a->kind != COMPARE_TEXT || strcmp(a->text, b->text) == 0);
}

static void add(struct comparing *state, enum compare_aspect aspect, const char *what,
                struct compare_value before, struct compare_value after)
{
    struct comparison *out = state->out;
    if (out->count == out->cap) {
        out->cap = out->cap ? out->cap * 2 : 64;
        out->items = mem_resize(out->items, out->cap, sizeof *out->items);
    }
    out->items[out->count++] =
        (struct change){aspect, state->module, state->entry, what, before, after};
}

static void compare(struct comparing *state, enum compare_aspect aspect, const char *what,
                    struct compare_value before, struct compare_value after)
{
    if (!same_value(&before, &after))
        add(state, aspect, what, before, after);
}

bool compare_grew(const struct change *change)
{
    return change->after.number > change->before.number;
}

/* ---- Two sorted lists side by side ------------------------------------------------------------
 */

enum {
    NONE = UINT32_MAX /* in place of a position: the other list alone has the name */
};

typedef const char *(*name_fn)(const struct view *view, uint32_t module, uint32_t position);
typedef void (*visit_fn)(struct comparing *state, const char *name, uint32_t before,
                         uint32_t after);

static void merge(struct comparing *state, uint32_t count_before, uint32_t count_after,
                  name_fn name, visit_fn visit)
{
    uint32_t i = 0, j = 0;
    while (i < count_before || j < count_after) {
        const char *left = i < count_before ? name(state->before, state->module_before, i) : NULL;
        const char *right = j < count_after ? name(state->after, state->module_after, j) : NULL;
        int order = !left ? 1 : !right ? -1 : strcmp(left, right);
        visit(state, order <= 0 ? left : right, order <= 0 ? i : NONE, order >= 0 ? j : NONE);
        i += order <= 0;
        j += order >= 0;
    }
}

static const char *what(struct comparing *state, const char *kind, const char *name)
{
    return arena_printf(&state->out->arena, "%s %s", kind, name);
}

/* ---- Entries ----------------------------------------------------------------------------------
 */

static const char *entry_name(const struct view *view, uint32_t module, uint32_t position)
{
    return view_entry(view, view_module(view, module).first_entry + position).name;
}

static struct compare_value block_of(struct comparing *state, const kpk_entry_info *entry)
{
    return entry->has_block ? text_of(view_block(entry, &state->out->arena)) : nothing;
}

static struct compare_value twin_of(struct comparing *state, const kpk_entry_info *entry)
{
    if (entry->bits == KPK_BITS_NONE)
        return nothing;
    return text_of(arena_printf(&state->out->arena, "%s (%s)", entry->twin_of,
                                entry->bits == KPK_BITS_SAME ? "same bits" : "close"));
}

static struct compare_value digest_value(struct comparing *state, const void *bytes)
{
    enum {
        SHOWN = 12 /* hexadecimal digits, as git shows of a commit */
    };
    struct digest digest;
    struct str hex = {0};
    memcpy(digest.bytes, bytes, sizeof digest.bytes);
    digest_hex(&digest, &hex);
    struct compare_value value = text_of(arena_strndup(&state->out->arena, str_text(&hex), SHOWN));
    str_free(&hex);
    return value;
}

static void compare_code(struct comparing *state, uint32_t before, uint32_t after)
{
    const struct digest *a = &state->code_before[before], *b = &state->code_after[after];
    if (memcmp(a->bytes, b->bytes, sizeof a->bytes) != 0)
        add(state, COMPARE_CODE, "machine code", digest_value(state, a->bytes),
            digest_value(state, b->bytes));
}

static void visit_entry(struct comparing *state, const char *name, uint32_t before, uint32_t after)
{
    state->entry = name;
    if (before == NONE || after == NONE) {
        bool added = before == NONE;
        add(state, added ? COMPARE_ADDED : COMPARE_REMOVED, "entry",
            added ? nothing : text_of("shipped"), added ? text_of("shipped") : nothing);
        state->entry = NULL;
        return;
    }
    before += view_module(state->before, state->module_before).first_entry;
    after += view_module(state->after, state->module_after).first_entry;
    kpk_entry_info a = view_entry(state->before, before), b = view_entry(state->after, after);
    compare(state, COMPARE_OTHER, "symbol", text_of(a.symbol), text_of(b.symbol));
    compare(state, COMPARE_REGISTERS, "registers", count_of(a.registers), count_of(b.registers));
    compare(state, COMPARE_SPILLS, "spilled bytes", bytes_if(a.has_spill, a.spill_bytes),
            bytes_if(b.has_spill, b.spill_bytes));
    compare(state, COMPARE_SMEM, "static shared memory", bytes_of(a.static_smem),
            bytes_of(b.static_smem));
    compare(state, COMPARE_SMEM, "dynamic shared memory",
            bytes_if(a.has_dynamic_smem, a.dynamic_smem),
            bytes_if(b.has_dynamic_smem, b.dynamic_smem));
    compare(state, COMPARE_STACK, "stack", bytes_of(a.stack_bytes), bytes_of(b.stack_bytes));
    compare(state, COMPARE_CODE, "code", bytes_of(a.code_bytes), bytes_of(b.code_bytes));
    if (a.code_bytes == b.code_bytes)
        compare_code(state, before, after);
    compare(state, COMPARE_OTHER, "block", block_of(state, &a), block_of(state, &b));
    compare(state, COMPARE_OTHER, "twin of", twin_of(state, &a), twin_of(state, &b));
    state->entry = NULL;
}

/* ---- Modules ----------------------------------------------------------------------------------
 */

static const char *module_name(const struct view *view, uint32_t module, uint32_t position)
{
    (void)module;
    return view_module(view, position).name;
}

static const char *constant_name(const struct view *view, uint32_t module, uint32_t position)
{
    int64_t value;
    return view_constant(view, module, position, &value);
}

static void visit_constant(struct comparing *state, const char *name, uint32_t before,
                           uint32_t after)
{
    int64_t a = 0, b = 0;
    if (before != NONE)
        view_constant(state->before, state->module_before, before, &a);
    if (after != NONE)
        view_constant(state->after, state->module_after, after, &b);
    compare(state, COMPARE_CONSTANTS, what(state, "constant", name),
            before == NONE ? nothing : integer_of(a), after == NONE ? nothing : integer_of(b));
}

static bool has_flag(const struct view *view, uint32_t module, const char *flag)
{
    uint32_t count = view_module(view, module).flag_count;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(view_flag(view, module, i), flag) == 0)
            return true;
    return false;
}

static struct compare_value flags_of(struct comparing *state, const struct view *view,
                                     uint32_t module)
{
    struct str text = {0};
    uint32_t count = view_module(view, module).flag_count;
    for (uint32_t i = 0; i < count; i++)
        str_addf(&text, "%s%s", i ? " " : "", view_flag(view, module, i));
    struct compare_value value = text_of(arena_strdup(&state->out->arena, str_text(&text)));
    str_free(&text);
    return value;
}

/* Flags are a list whose order counts: what one side lacks, else how the lists differ. */
static void compare_flags(struct comparing *state)
{
    const struct view *before = state->before, *after = state->after;
    uint32_t a = state->module_before, b = state->module_after;
    struct compare_value all_before = flags_of(state, before, a),
                         all_after = flags_of(state, after, b);
    size_t listed = state->out->count;
    for (uint32_t i = 0; i < view_module(before, a).flag_count; i++) {
        const char *flag = view_flag(before, a, i);
        if (!has_flag(after, b, flag))
            add(state, COMPARE_FLAGS, what(state, "flag", flag), text_of("given"), nothing);
    }
    for (uint32_t i = 0; i < view_module(after, b).flag_count; i++) {
        const char *flag = view_flag(after, b, i);
        if (!has_flag(before, a, flag))
            add(state, COMPARE_FLAGS, what(state, "flag", flag), nothing, text_of("given"));
    }
    if (state->out->count == listed)
        compare(state, COMPARE_FLAGS, "list of flags", all_before, all_after);
}

static void add_module(struct comparing *state, bool added, uint32_t index)
{
    const struct view *view = added ? state->after : state->before;
    add(state, added ? COMPARE_ADDED : COMPARE_REMOVED, "module",
        added ? nothing : text_of("shipped"), added ? text_of("shipped") : nothing);
    state->module_before = state->module_after = index;
    for (uint32_t i = 0; i < view_module(view, index).entry_count; i++)
        visit_entry(state, entry_name(view, index, i), added ? NONE : i, added ? i : NONE);
}

static void visit_module(struct comparing *state, const char *name, uint32_t before, uint32_t after)
{
    state->module = name;
    if (before == NONE || after == NONE) {
        add_module(state, before == NONE, before == NONE ? after : before);
        state->module = NULL;
        return;
    }
    state->module_before = before;
    state->module_after = after;
    kpk_module_info a = view_module(state->before, before), b = view_module(state->after, after);
    compare(state, COMPARE_OTHER, "source", text_of(a.source), text_of(b.source));
    compare(state, COMPARE_OTHER, "declared by", text_of(a.origin), text_of(b.origin));
    merge(state, a.constant_count, b.constant_count, constant_name, visit_constant);
    compare_flags(state);
    compare(state, COMPARE_OTHER, "number of cubins", count_of(a.object_count),
            count_of(b.object_count));
    if (memcmp(a.digest, b.digest, sizeof a.digest) != 0)
        add(state, COMPARE_CODE, "cubins", digest_value(state, a.digest),
            digest_value(state, b.digest));
    merge(state, a.entry_count, b.entry_count, entry_name, visit_entry);
    state->module = NULL;
}

/* ---- The image's own --------------------------------------------------------------------------
 */

static const char *lever_name(const struct view *view, uint32_t module, uint32_t position)
{
    (void)module;
    return view_lever(view, position).name;
}

static struct compare_value default_of(const kpk_lever *lever)
{
    if (lever->kind == KPK_TEXT)
        return text_of(lever->default_text);
    return text_of(lever->default_on ? "on" : "off");
}

static void visit_lever(struct comparing *state, const char *name, uint32_t before, uint32_t after)
{
    kpk_lever a = {0}, b = {0};
    if (before != NONE)
        a = view_lever(state->before, before);
    if (after != NONE)
        b = view_lever(state->after, after);
    compare(state, COMPARE_LEVERS, what(state, "lever", name),
            before == NONE ? nothing : default_of(&a), after == NONE ? nothing : default_of(&b));
    if (before == NONE || after == NONE)
        return;
    compare(state, COMPARE_LEVERS, what(state, "kind of lever", name),
            text_of(view_lever_kind(a.kind)), text_of(view_lever_kind(b.kind)));
    compare(state, COMPARE_LEVERS, what(state, "variable of lever", name), text_of(a.env),
            text_of(b.env));
}

static const char *absent_name(const struct view *view, uint32_t module, uint32_t position)
{
    (void)module;
    kpk_absent_info absent = view_absent(view, position);
    return arena_printf(&view->cli->arena, "%s:%s", absent.module, absent.entry);
}

static void visit_absent(struct comparing *state, const char *name, uint32_t before, uint32_t after)
{
    compare(state, COMPARE_OTHER, what(state, "expected absent", name),
            before == NONE ? nothing : text_of(view_absent(state->before, before).reason),
            after == NONE ? nothing : text_of(view_absent(state->after, after).reason));
}

static struct compare_value version_of(struct comparing *state, uint32_t major, uint32_t minor)
{
    return text_of(arena_printf(&state->out->arena, "%u.%u", major, minor));
}

static void compare_info(struct comparing *state)
{
    const kpk_image_info *a = &state->before->info, *b = &state->after->info;
    compare(state, COMPARE_OTHER, "target", text_of(a->target), text_of(b->target));
    compare(state, COMPARE_OTHER, "arch", text_of(a->arch), text_of(b->arch));
    compare(state, COMPARE_OTHER, "compute capability",
            version_of(state, a->compute_major, a->compute_minor),
            version_of(state, b->compute_major, b->compute_minor));
    compare(state, COMPARE_OTHER, "NVRTC", version_of(state, a->nvrtc_major, a->nvrtc_minor),
            version_of(state, b->nvrtc_major, b->nvrtc_minor));
    compare(state, COMPARE_OTHER, "minimum driver",
            version_of(state, a->min_driver / 1000, a->min_driver % 1000 / 10),
            version_of(state, b->min_driver / 1000, b->min_driver % 1000 / 10));
    compare(state, COMPARE_OTHER, "multiprocessors", a->sm_count ? count_of(a->sm_count) : nothing,
            b->sm_count ? count_of(b->sm_count) : nothing);
    compare(state, COMPARE_OTHER, "shared memory of a block",
            bytes_if(a->smem_optin != 0, a->smem_optin),
            bytes_if(b->smem_optin != 0, b->smem_optin));
    compare(state, COMPARE_OTHER, "format", count_of(a->format_version),
            count_of(b->format_version));
    compare(state, COMPARE_SIZE, "file", bytes_of(a->file_bytes), bytes_of(b->file_bytes));
    compare(state, COMPARE_OTHER, "cubins", bytes_of(a->raw_bytes), bytes_of(b->raw_bytes));
    merge(state, a->lever_count, b->lever_count, lever_name, visit_lever);
    merge(state, a->absent_count, b->absent_count, absent_name, visit_absent);
}

bool compare_images(struct view *before, struct view *after, struct comparison *out_comparison)
{
    *out_comparison = (struct comparison){0};
    struct digest *code_before = mem_alloc(before->info.entry_count, sizeof *code_before);
    struct digest *code_after = mem_alloc(after->info.entry_count, sizeof *code_after);
    struct comparing state = {
        .before = before,
        .after = after,
        .code_before = code_before,
        .code_after = code_after,
        .out = out_comparison,
    };
    bool read = code_digests(before, code_before);
    read = code_digests(after, code_after) && read;
    if (read) {
        compare_info(&state);
        merge(&state, before->info.module_count, after->info.module_count, module_name,
              visit_module);
    }
    free(code_before);
    free(code_after);
    return read;
}

void compare_free(struct comparison *comparison)
{
    free(comparison->items);
    arena_free(&comparison->arena);
    *comparison = (struct comparison){0};
}
