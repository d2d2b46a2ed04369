#!/bin/sh
# embed.sh TABLE FOLDER FILE...: prints C source that defines `const struct embed_file TABLE[]` with the
# bytes of FOLDER/FILE, by the assembler's .incbin.
set -eu
table=$1 folder=$2
shift 2
echo '#include "base/embed.h"'
n=0
for file in "$@"; do
    # Global: aarch64's linker takes a local symbol that C finds through the GOT for its section's start.
    printf '__asm__(".global %s_%d, %s_%d_end\\n.hidden %s_%d, %s_%d_end\\n");\n' \
        "$table" "$n" "$table" "$n" "$table" "$n" "$table" "$n"
    printf '__asm__(".section .rodata\\n%s_%d: .incbin \\"%s/%s\\"\\n%s_%d_end: .byte 0\\n.text\\n");\n' \
        "$table" "$n" "$folder" "$file" "$table" "$n"
    printf 'extern const char %s_%d[], %s_%d_end[];\n' "$table" "$n" "$table" "$n"
    n=$((n + 1))
done
# Sizes are link-time constants that C cannot put in an initialiser, so a constructor fills them in.
echo "static struct embed_file files[$n + 1];"
echo "extern const struct embed_file ${table}[$n + 1] __attribute__((alias(\"files\")));"
echo '__attribute__((constructor)) static void fill(void)'
echo '{'
n=0
for file in "$@"; do
    printf '    files[%d] = (struct embed_file){"%s", %s_%d, (size_t)(%s_%d_end - %s_%d)};\n' \
        "$n" "$file" "$table" "$n" "$table" "$n" "$table" "$n"
    n=$((n + 1))
done
echo '}'
