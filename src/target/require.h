#ifndef TARGET_REQUIRE_H
#define TARGET_REQUIRE_H

#include <lua.h>

/* Pushes a new `require` for descriptions: "kpack" gives the value at index `language`, any other
 * name a file of the project's own lua/ or targets/, run once in the sandbox environment. */
void require_push(lua_State *lua, int language);

#endif
