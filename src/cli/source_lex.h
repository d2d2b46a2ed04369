#ifndef CLI_SOURCE_LEX_H
#define CLI_SOURCE_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* Tokens of a source, as far as finding calls with literal strings needs them: comments gone,
 * strings decoded, the rest words and single characters. Nothing is preprocessed, and a source that
 * does not compile gives tokens too. */

enum source_language {
    SOURCE_NONE,
    SOURCE_C, /* C, C++, CUDA */
    SOURCE_RUST,
    SOURCE_PYTHON,
};

enum source_kind {
    SOURCE_WORD,   /* an identifier or a keyword: text */
    SOURCE_STRING, /* its value: text, or NULL when it is no constant (an f-string with fields, a
                      NUL inside) */
    SOURCE_CHAR,   /* a single character of anything else: `byte` */
    SOURCE_OTHER,  /* a number, a character constant */
};

struct source_token {
    enum source_kind kind;
    const char *text; /* in the arena */
    char byte;
    bool directive; /* on a line that starts with '#', in C */
    uint32_t line;
    size_t start, end; /* where it stands in the source */
};

struct source {
    enum source_language language;
    const char *bytes; /* borrowed */
    size_t size;
    struct source_token *tokens; /* owned */
    size_t count, cap;
};

/* By the file's ending; SOURCE_NONE: none that is known. */
enum source_language source_language_of(const char *path);

/* The endings that are known, for messages. */
#define SOURCE_ENDINGS ".c, .h, .cc, .cpp, .cxx, .hh, .hpp, .hxx, .inl, .cu, .cuh, .rs, .py or .pyi"

/* Never fails: what does not end, ends with the line or the file. Texts live in the arena. */
void source_lex(enum source_language language, const char *bytes, size_t size, struct arena *arena,
                struct source *out_source);
void source_free(struct source *source);

#endif
