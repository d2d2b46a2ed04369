/* Opens the image that is linked into it and launches one of its kernels: embedded MODULE ENTRY */
#include <stdio.h>

#include "kpk.h"

#ifdef __cplusplus
extern "C" {
#endif
/* As 'kpack embed -o small.o small.kpk' prints them. */
extern const unsigned char kpk_image_small[];
extern const size_t kpk_image_small_size;
#ifdef __cplusplus
}
#endif

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    kpk_image *image;
    kpk_status status = kpk_open_memory(kpk_image_small, kpk_image_small_size, NULL, &image);
    if (status == KPK_OK)
        status = kpk_bind(image, 0);
    kpk_grid grid = {1, 1, 1};
    if (status == KPK_OK)
        status = kpk_launch(image, kpk_resolve(image, argv[1], argv[2]), grid, 0, NULL, NULL);
    printf("%s:%s: %s\n", argv[1], argv[2], kpk_status_text(status));
    kpk_close(image);
    return status != KPK_OK;
}
