#include "compile/answer.h"

#include <string.h>

#include "compile/nvrtc_log.h"
#include "compile/ptxas_log.h"

static void read_log(const char *text, struct arena *arena, struct compile_result *out)
{
    struct ptxas_log ptxas;
    struct str rest = {0};
    ptxas_log_read(text, arena, &ptxas, &rest);
    out->log = arena_strdup(arena, str_text(&rest));
    struct compile_spill *spills = arena_alloc(arena, ptxas.count, sizeof *spills);
    for (size_t i = 0; i < ptxas.count; i++)
        spills[i] = (struct compile_spill){
            .entry = ptxas.entries[i].name,
            .store_bytes = ptxas.entries[i].spill_store_bytes,
            .load_bytes = ptxas.entries[i].spill_load_bytes,
            .registers = ptxas.entries[i].registers,
            .smem_bytes = ptxas.entries[i].smem_bytes,
        };
    out->spills = spills;
    out->spill_count = ptxas.count;
    str_free(&rest);
}

bool answer_take(struct wire_message *message, const struct compile_unit *unit, struct arena *arena,
                 struct arena *passing, struct answer *out)
{
    struct compile_result *result = &out->result;
    size_t log_size;
    uint64_t outcome = wire_take_u64(message);
    *out = (struct answer){.outcome = (enum worker_outcome)outcome};
    out->error = wire_take_text(message, passing);
    const char *log = wire_take_bytes(message, passing, &log_size);
    result->cubin = wire_take_bytes(message, arena, &result->cubin_size);
    result->symbols = wire_take_texts(message, arena, &result->symbol_count);
    result->opened = wire_take_inputs(message, arena, &result->opened_count);
    result->missed = wire_take_texts(message, arena, &result->missed_count);
    out->refused = wire_take_texts(message, passing, &out->refused_count);
    result->seconds = (double)wire_take_u64(message) * 1e-9;
    result->peak_bytes = wire_take_u64(message);
    out->resident = wire_take_u64(message);
    result->nvrtc_major = (int)wire_take_u64(message);
    result->nvrtc_minor = (int)wire_take_u64(message);
    uint64_t inputs = wire_take_u64(message);
    result->inputs = (enum compile_inputs)inputs;
    read_log(log, arena, result);
    return wire_done(message) && inputs <= COMPILE_UNKNOWN && outcome <= WORKER_UNKNOWN_ARCH &&
           (outcome != WORKER_DONE || result->symbol_count == unit->expression_count);
}

/* NVRTC says which header it did not find, but not where it looked. */
static void note_searched(const struct compile_unit *unit, const char *log, struct diags *diags)
{
    struct str text = {0};
    if (!strstr(log, "cannot open source file"))
        return;
    for (size_t i = 0; i < unit->include_count; i++)
        str_addf(&text, ", '%s'", unit->includes[i]);
    diag_add(diags, DIAG_NOTE, (struct loc){0},
             "headers were looked for beside the file that includes them%s, and among CUDA's own; "
             "the description's 'includes' adds folders; NVRTC has few of the host's headers",
             str_text(&text));
    str_free(&text);
}

/* Whether a log has the flag as a word of its own. */
static bool names_flag(const char *log, const char *flag)
{
    size_t length = strlen(flag);
    for (const char *at = log; length && (at = strstr(at, flag)); at += length)
        if ((at == log || strchr(" '\"\n", at[-1])) && strchr(" '\"\n", at[length]))
            return true;
    return false;
}

/* What the compiler says of no place in a source is of the flag that it names, or of the unit. */
static struct loc placeless(const struct compile_unit *unit, const char *log)
{
    for (size_t i = 0; unit->flag_locs && i < unit->flag_count; i++)
        if (names_flag(log, unit->flags[i]))
            return unit->flag_locs[i];
    return unit->loc;
}

void answer_report(const struct answer *answer, const struct compile_unit *unit,
                   const struct cuda *cuda, struct diags *diags)
{
    const char *log = answer->result.log;
    size_t errors = nvrtc_log_add(log, unit->root, cuda, placeless(unit, log), diags);
    if (answer->outcome == WORKER_DONE)
        return;
    for (size_t i = 0; i < answer->refused_count; i++)
        diag_add(diags, DIAG_NOTE, (struct loc){0},
                 "'%s' was asked for and not read: it is no regular file, or cannot be opened",
                 answer->refused[i]);
    note_searched(unit, log, diags);
    if (errors)
        diag_error_at(diags, unit->loc, "'%s' does not compile for %s: %zu error%s", unit->name,
                      unit->arch, errors, errors == 1 ? "" : "s");
    else
        diag_error_at(diags, answer->outcome == WORKER_UNKNOWN_ARCH ? unit->arch_loc : unit->loc,
                      "'%s' does not compile for %s: %s", unit->name, unit->arch, answer->error);
}
