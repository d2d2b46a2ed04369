#ifndef TARGET_DESCRIPTION_H
#define TARGET_DESCRIPTION_H

#include "target/sandbox.h"
#include "target/target.h"

/* One description by itself, as its file declares it: what inheritance and the checks across files
 * work on. All in the arena of target_load. */

struct declared_entry {
    struct target_entry entry;
    struct loc twin_loc, smem_loc, static_smem_loc;
    size_t walk; /* along twins that came by last, from 1: of check.c */
};

struct dropped {
    const char *entry, *reason;
    struct loc loc;
};

struct folder {
    const char *path;
    struct loc loc;
};

struct folders {
    struct folder *items;
    size_t count;
};

struct declared_module {
    const struct description *owner;
    const char *name, *source; /* as written */
    struct loc loc, source_loc, flags_loc;
    bool every, split, lto, strict, shadow;
    struct declared_entry *entries;
    size_t entry_count;
    struct target_constant *constants;
    size_t constant_count;
    const char **flags;
    size_t flag_count;
    struct folders includes;
    const char *path; /* of the source, root-relative; NULL until roots_resolve found it */
    const char **include_paths; /* all that it searches, in order; set by roots_resolve */
    size_t include_path_count;
    struct dropped *drops;
    size_t drop_count;
};

struct declared_lever {
    struct target_lever lever;
    struct loc loc;
};

struct declared_absent {
    struct target_absent absent;
    struct loc loc;
};

struct description {
    const struct description *parent; /* NULL: inherits from none */
    const char *path, *name, *arch, *inherits;
    struct loc loc, arch_loc, inherits_loc, flags_loc;
    uint32_t compute_major, compute_minor, sm_count, smem_optin;
    const char **flags;
    size_t flag_count;
    bool strict;
    struct folders includes;
    struct declared_lever *levers;
    size_t lever_count;
    struct declared_absent *absents;
    size_t absent_count;
    struct declared_module *modules;
    size_t module_count;
};

/* Turns the table at `index`, as lua/check.lua builds it, into structs; fields that were wrong are
 * left out. May raise a Lua error. */
void description_read(lua_State *lua, int index, struct description *out);

#endif
