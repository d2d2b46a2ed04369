#ifndef IMAGE_FILE_DIGEST_H
#define IMAGE_FILE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/kpk_format.h"

/* The digest that the format has over its own bytes: XXH3-128, canonical. */
void file_digest(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE]);

#endif
