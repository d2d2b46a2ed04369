#ifndef TARGET_LANGUAGE_H
#define TARGET_LANGUAGE_H

#include <stdbool.h>

#include "target/description.h"
#include "target/sandbox.h"

/* Puts the language of lua/ into an open sandbox: `require`, the constructors, and what
 * lua/check.lua needs of the C side. */
bool language_open(struct sandbox *sandbox);

/* Runs the description at `path`, checks what it returned and reads it into `out`. Errors go to the
 * sandbox's list; returns false when nothing could be read. */
bool language_run(struct sandbox *sandbox, const char *path, struct description *out);

/* The place in the text that a place of lua/words.lua at `index` stands for. */
struct loc language_place(lua_State *lua, int index);

#endif
