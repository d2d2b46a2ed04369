#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Heap and arena allocation for the tool. Running out of memory is fatal here: one line on standard
 * error and exit status 1. The runtime and the launchers never use this file. */

/* Zeroed memory; count * size is checked for overflow. Never NULL. Free with free(). */
void *mem_alloc(size_t count, size_t size);

/* Grows or shrinks `old` to count * size bytes; bytes beyond the old size are undefined. */
void *mem_resize(void *old, size_t count, size_t size);

char *mem_strdup(const char *text);

/* The n-th allocation from now fails as if memory ran out; 0 turns the test hook off. */
void mem_fail_after(uint64_t n);

/* A broken invariant of our own: says where, then aborts. Never for bad input. */
#define BUG(message) mem_bug(__FILE__, __LINE__, message)
_Noreturn void mem_bug(const char *file, int line, const char *message);

/* Memory freed all at once: one arena per invocation, or per job. Zero-initialise to start. */
struct arena {
    struct arena_block *block; /* owned; newest first */
};

/* Zeroed, 16-byte aligned, never NULL, valid until arena_free. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);

char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t size);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void arena_free(struct arena *arena);

#endif
