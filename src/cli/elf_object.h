#ifndef CLI_ELF_OBJECT_H
#define CLI_ELF_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* A linkable ELF64 object that holds bytes and nothing else, written without an assembler. */

enum {
    ELF_OBJECT_ALIGN = 64, /* of the bytes */
};

/* e_machine of "x86-64", "aarch64" or, for NULL, of the host; 0 for another name or host. */
uint16_t elf_object_machine(const char *name);

/* Adds the object: `symbol` names the bytes in .rodata, `symbol`_size a uint64_t with their count
 * behind them; both are global. Its notes ask for no executable stack and allow what a processor
 * can check of branches, which an object without code never breaks. */
void elf_object_add(struct str *out, uint16_t machine, const char *symbol, const void *bytes,
                    size_t size);

#endif
