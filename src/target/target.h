#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"

/* A target description, read and checked: plain structs, all owned by the arena given to
 * target_load. Lists are in declaration order, except where they say sorted. */

struct target_constant {
    const char *name; /* a C identifier */
    int64_t value;
};

enum target_bits {
    TARGET_BITS_NONE, /* no twin */
    TARGET_BITS_SAME,
    TARGET_BITS_CLOSE,
};

/* A limit or a size that a description may leave out. */
struct target_size {
    bool given;
    uint32_t value; /* bytes, or registers */
};

struct target_entry {
    const char *name;       /* as the cubin's symbol, unless it has an expression */
    const char *expression; /* the kernel's C++ name, such as a template's instance; NULL: none */
    struct loc loc;
    bool has_block;
    uint32_t block[3];
    struct target_size
        dynamic_smem; /* bytes a launch asks for; reaches the kernel as KPK_SMEM_<entry> */
    struct target_size static_smem;       /* bytes the cubin must use; KPK_STATIC_SMEM_<entry> */
    const char *twin_module, *twin_entry; /* NULL: no twin */
    enum target_bits bits;
    struct {
        struct target_size registers, spill_bytes, stack_bytes, static_smem, dynamic_smem,
            code_bytes, seconds;
    } limits; /* the build fails when the compiled entry uses more */
};

struct target_module {
    const char *name;
    const char *origin; /* the target that declares it: this one, or one it inherits from */
    const char *source; /* root-relative path of an existing file */
    struct loc loc;
    bool every; /* takes every entry of the compiled module; `entries` is then empty */
    bool split, lto;
    bool strict; /* the compiler's warnings are errors */
    struct target_entry *entries;
    size_t entry_count;
    struct target_constant *constants; /* sorted by name */
    size_t constant_count;
    const char **flags;    /* of the declaring target, then the module's own */
    struct loc *flag_locs; /* by flag: of the list that holds it */
    size_t flag_count;
    const char **includes; /* root-relative folders, searched in order */
    size_t include_count;
};

enum target_lever_kind {
    TARGET_LEVER_SWITCH,
    TARGET_LEVER_IS1,
    TARGET_LEVER_PRESENCE,
    TARGET_LEVER_TEXT,
};

struct target_lever {
    const char *name, *env;
    enum target_lever_kind kind;
    bool on;          /* the default, but for text */
    const char *text; /* the default of a text lever; "" otherwise */
};

struct target_absent {
    const char *module, *entry, *reason;
};

struct target {
    const char *path; /* as given */
    const char *root; /* the project root, absolute, without a trailing '/' */
    const char *name, *arch;
    struct loc arch_loc;
    const char *inherits;                  /* NULL: none */
    uint32_t compute_major, compute_minor; /* from `device`, or from the arch's digits */
    uint32_t sm_count, smem_optin;         /* 0: not declared */
    struct target_module *modules;         /* sorted by name; inherited ones included */
    size_t module_count;
    struct target_lever *levers; /* sorted by name; inherited ones merged */
    size_t lever_count;
    struct target_absent
        *absents; /* sorted by module, then entry; dropped entries are among them */
    size_t absent_count;
};

/* Runs the description at `path` in a sandboxed Lua 5.4 (64 MiB, 50 million steps, 5 seconds; no
 * io, os, debug or bytecode), checks it against the schema and resolves inheritance, sources,
 * constants and sizes. Every mistake in it and in those it inherits from becomes an error with its
 * place; returns NULL when there was one. lua/README.md specifies the language. */
struct target *target_load(const char *path, struct arena *arena, struct diags *diags);

#endif
