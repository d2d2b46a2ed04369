#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARENA_BLOCK_SIZE = 64 * 1024,
    ARENA_ALIGN = 16,
};

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(ARENA_ALIGN) char bytes[];
};

static uint64_t fail_countdown;

static _Noreturn void out_of_memory(void)
{
    fputs("kpack: error: out of memory\n", stderr);
    exit(1);
}

static void *checked(void *memory)
{
    if (fail_countdown && --fail_countdown == 0) {
        free(memory);
        memory = NULL;
    }
    if (!memory)
        out_of_memory();
    return memory;
}

void *mem_alloc(size_t count, size_t size)
{
    if (!count || !size)
        count = size = 1;
    return checked(calloc(count, size));
}

void *mem_resize(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory();
    return checked(realloc(old, bytes ? bytes : 1));
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(mem_alloc(size, 1), text, size);
}

void mem_fail_after(uint64_t n)
{
    fail_countdown = n;
}

void mem_bug(const char *file, int line, const char *message)
{
    fprintf(stderr, "kpack: bug: %s:%d: %s\n", file, line, message);
    abort();
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ARENA_BLOCK_SIZE)
        out_of_memory();
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_block *block = arena->block;
    if (!block || block->size - block->used < bytes) {
        size_t room = bytes > ARENA_BLOCK_SIZE ? bytes : ARENA_BLOCK_SIZE;
        block = mem_alloc(1, sizeof *block + room);
        block->size = room;
        block->next = arena->block;
        arena->block = block;
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

char *arena_strndup(struct arena *arena, const char *text, size_t size)
{
    char *copy = arena_alloc(arena, size + 1, 1);
    if (size)
        memcpy(copy, text, size);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        BUG("format string refused by vsnprintf");
    char *text = arena_alloc(arena, (size_t)length + 1, 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_free(struct arena *arena)
{
    while (arena->block) {
        struct arena_block *next = arena->block->next;
        free(arena->block);
        arena->block = next;
    }
}
