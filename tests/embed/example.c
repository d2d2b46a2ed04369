/* Opens an image and launches one of its kernels: example IMAGE MODULE ENTRY */
#include <stdio.h>
#include <string.h>

#include "kpk.h"

static void say(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    (void)severity;
    fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    kpk_image *image;
    kpk_open_desc desc; /* what is zero has its default */
    memset(&desc, 0, sizeof desc);
    desc.message = say;
    if (kpk_open(argv[1], &desc, &image) != KPK_OK)
        return 1;
    kpk_status status = kpk_bind(image, 0); /* can device 0 run this image? */
    kpk_kernel kernel = kpk_resolve(image, argv[2], argv[3]);
    if (kernel.id == 0)
        printf("%s\n", kpk_absence_text(kpk_absent_reason(image, argv[2], argv[3])));
    kpk_grid grid = {1, 1, 1};
    if (status == KPK_OK) /* an engine takes another path where the handle is zero */
        status = kernel.id == 0 ? KPK_ERR_ABSENT : kpk_launch(image, kernel, grid, 0, NULL, NULL);
    printf("%s:%s: %s\n", argv[2], argv[3], kpk_status_text(status));
    kpk_close(image);
    return status != KPK_OK;
}
