/* Prints lookups that an image does not answer, for 'kpack audit --lookups':
 * misses IMAGE MODULE ENTRY [MODULE ENTRY ...] */
#include <stdio.h>
#include <stdlib.h>

#include "kpk.h"

int main(int argc, char **argv)
{
    kpk_image *image;
    if (argc < 2 || kpk_open(argv[1], NULL, &image) != KPK_OK)
        return 2;
    for (int i = 2; i + 1 < argc; i += 2)
        kpk_resolve(image, argv[i], argv[i + 1]);
    size_t size = kpk_misses_json(image, NULL, 0) + 1;
    char *text = (char *)malloc(size);
    if (text != NULL) {
        kpk_misses_json(image, text, size);
        fputs(text, stdout);
    }
    free(text);
    kpk_close(image);
    return text == NULL;
}
