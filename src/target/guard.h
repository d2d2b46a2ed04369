#ifndef TARGET_GUARD_H
#define TARGET_GUARD_H

#include <lua.h>

/* Pushes a new table: the library functions that descriptions may call. Those whose work in C no
 * instruction count sees are wrapped; those whose results differ from run to run (addresses, the
 * order of a hash table) are replaced. Reading any other name is an error that says what there is.
 * Needs the base, table, string and math libraries open. */
void guard_push_env(lua_State *lua);

#endif
