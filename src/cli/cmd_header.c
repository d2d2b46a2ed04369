#include "cli/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "target/target.h"

/* A C header of what host code must agree on with a target. Macros, so that it serves C and C++,
 * the preprocessor included, and costs nothing where it is not used. */

struct macro {
    const char *name;
    const char *subject; /* what it is of, for messages */
    struct loc loc;
};

struct header {
    struct cli *cli;
    const struct target *target;
    const char *prefix; /* "KPK_HOPPER" */
    struct str text;
    struct macro *macros; /* owned */
    size_t count, cap;
};

/* The text with all but ASCII letters and digits replaced by '_'. */
static char *word_of(struct arena *arena, const char *text, bool upper)
{
    char *word = arena_strdup(arena, text);
    for (char *at = word; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte >= 0x80 || !isalnum(byte))
            *at = '_';
        else if (upper)
            *at = (char)toupper(byte);
    }
    return word;
}

static void define(struct header *header, const char *kind, const char *module, const char *name,
                   struct loc loc, const char *value)
{
    struct arena *arena = &header->cli->arena;
    const char *joint = name ? "_" : "", *colon = name ? ":" : "";
    const char *second = name ? word_of(arena, name, false) : "";
    if (header->count == header->cap) {
        header->cap = header->cap ? header->cap * 2 : 64;
        header->macros = mem_resize(header->macros, header->cap, sizeof *header->macros);
    }
    struct macro *macro = &header->macros[header->count++];
    *macro = (struct macro){
        .name = arena_printf(arena, "%s_%s_%s%s%s", header->prefix, kind,
                             word_of(arena, module, false), joint, second),
        .subject = arena_printf(arena, "%s%s%s", module, colon, name ? name : ""),
        .loc = loc,
    };
    str_addf(&header->text, "#define %s %s\n", macro->name, value);
}

/* Names are ASCII without quotes and backslashes, but for C++ expressions. */
static const char *quoted(struct arena *arena, const char *text)
{
    struct str out = {0};
    str_addc(&out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            str_addc(&out, '\\');
        str_addc(&out, *text);
    }
    str_addc(&out, '"');
    char *copy = arena_strdup(arena, str_text(&out));
    str_free(&out);
    return copy;
}

/* Negative ones in parentheses, for the text must bind as one operand; wide ones with the macro of
 * stdint.h; C has no literal for INT64_MIN. */
static const char *integer(struct arena *arena, int64_t value)
{
    if (value == INT64_MIN)
        return "(-INT64_C(9223372036854775807) - 1)";
    bool wide = value > INT32_MAX || value < -INT32_MAX;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const char *digits = arena_printf(arena, wide ? "INT64_C(%" PRIu64 ")" : "%" PRIu64, size);
    return value < 0 ? arena_printf(arena, "(-%s)", digits) : digits;
}

static void add_entry(struct header *header, const struct target_module *module,
                      const struct target_entry *entry)
{
    struct arena *arena = &header->cli->arena;
    const char *const axes[] = {"BLOCK_X", "BLOCK_Y", "BLOCK_Z"};
    define(header, "ENTRY", module->name, entry->name, entry->loc, quoted(arena, entry->name));
    for (size_t i = 0; entry->has_block && i < 3; i++)
        define(header, axes[i], module->name, entry->name, entry->loc,
               integer(arena, entry->block[i]));
    if (entry->has_block)
        define(header, "THREADS", module->name, entry->name, entry->loc,
               integer(arena, (int64_t)entry->block[0] * entry->block[1] * entry->block[2]));
    if (entry->dynamic_smem.given)
        define(header, "SMEM", module->name, entry->name, entry->loc,
               integer(arena, entry->dynamic_smem.value));
    if (entry->static_smem.given)
        define(header, "STATIC_SMEM", module->name, entry->name, entry->loc,
               integer(arena, entry->static_smem.value));
}

static void add_module(struct header *header, const struct target_module *module)
{
    struct arena *arena = &header->cli->arena;
    str_addf(&header->text, "\n/* %s%s */\n", module->name,
             module->every ? ": with every entry that it has when compiled" : "");
    define(header, "MODULE", module->name, NULL, module->loc, quoted(arena, module->name));
    for (size_t i = 0; i < module->constant_count; i++)
        define(header, "CONSTANT", module->name, module->constants[i].name, module->loc,
               integer(arena, module->constants[i].value));
    for (size_t i = 0; i < module->entry_count; i++)
        add_entry(header, module, &module->entries[i]);
}

static int by_name(const void *a, const void *b)
{
    const struct macro *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->subject, y->subject);
}

/* "a.b" and "a_b" would be one macro, and so would "a:b_c" and "a_b:c". */
static bool check_names(struct header *header)
{
    bool ok = true;
    qsort(header->macros, header->count, sizeof *header->macros, by_name);
    for (size_t i = 1; i < header->count; i++) {
        const struct macro *macro = &header->macros[i], *before = macro - 1;
        if (strcmp(before->name, macro->name) != 0)
            continue;
        ok = diag_error_at(&header->cli->diags, macro->loc,
                           "'%s' and '%s' would both be the macro '%s': rename one",
                           before->subject, macro->subject, macro->name);
    }
    return ok;
}

static void add_text(struct header *header)
{
    const struct target *target = header->target;
    struct arena *arena = &header->cli->arena;
    str_addf(&header->text,
             "/* Modules and entries of target %s (%s), with their constants, blocks and bytes of "
             "shared\n * memory. Made by kpack header from the target's description: change that "
             "instead. */\n#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n\n",
             target->name, target->arch, header->prefix, header->prefix);
    str_addf(&header->text, "#define %s_TARGET %s\n#define %s_ARCH %s\n", header->prefix,
             quoted(arena, target->name), header->prefix, quoted(arena, target->arch));
    for (size_t i = 0; i < target->module_count; i++)
        add_module(header, &target->modules[i]);
    str_adds(&header->text, "\n#endif\n");
}

static const struct output_kind made_by_us = {"a header made by kpack", NULL,
                                              "/* Modules and entries of target "};

enum cli_exit cmd_header(struct cli *cli, const struct cli_args *args)
{
    const char *path = args->values[HEADER_FILE];
    struct header header = {.cli = cli};
    bool written;
    if (!path)
        return cli_usage(cli, "'kpack header' needs '-o FILE'");
    header.target = target_load(args->words[0], &cli->arena, &cli->diags);
    if (!header.target)
        return CLI_FAILED;
    header.prefix =
        arena_printf(&cli->arena, "KPK_%s", word_of(&cli->arena, header.target->name, true));
    add_text(&header);
    bool ok = check_names(&header) && output_replaces(path, &made_by_us, &cli->diags) &&
              file_update(path, header.text.data, header.text.len, &written, &cli->diags);
    if (ok)
        report_line(stdout, "%s: %zu macros%s", report_name(&cli->arena, path), header.count + 2,
                    written ? "" : ", unchanged");
    str_free(&header.text);
    free(header.macros);
    return ok ? CLI_DONE : CLI_FAILED;
}
