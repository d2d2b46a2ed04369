/* Needs no runtime: whether the linked image is the file's bytes, aligned. bytes IMAGE */
#include <stdint.h>
#include <stdio.h>

extern const unsigned char kpk_image_small[];
extern const size_t kpk_image_small_size;

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    size_t same = 0;
    int byte = 0;
    if (file == NULL)
        return 2;
    while ((byte = getc(file)) != EOF && same < kpk_image_small_size &&
           byte == kpk_image_small[same])
        same++;
    fclose(file);
    printf("%zu of %zu bytes, %u past a multiple of 64\n", same, kpk_image_small_size,
           (unsigned)((uintptr_t)kpk_image_small % 64));
    return byte != EOF || same != kpk_image_small_size || (uintptr_t)kpk_image_small % 64 != 0;
}
