/* An image in a program by the assembler alone: the same symbols as those of 'kpack embed'.
 *     cc -c -DIMAGE='"small.kpk"' incbin.S */
        .section .rodata
        .balign 64
        .global kpk_image_small
        .type kpk_image_small, %object
kpk_image_small:
        .incbin IMAGE
1:      .size kpk_image_small, 1b - kpk_image_small
        .balign 8
        .global kpk_image_small_size
        .type kpk_image_small_size, %object
        .size kpk_image_small_size, 8
kpk_image_small_size:
        .8byte 1b - kpk_image_small
        .section .note.GNU-stack, "", %progbits
