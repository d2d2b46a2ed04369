#include <string.h>

#include "image/image.h"

/* The toolkit of the 12 or 13 series that first compiled for each architecture (CUDA Features
 * Archive, "CUDA Compiler" of each release); those older than 12.0 stand at 12.0. */
static const struct {
    const char *arch;
    uint32_t toolkit;
} introduced[] = {
    {"sm_50", 12000},   {"sm_52", 12000},   {"sm_53", 12000},   {"sm_60", 12000},
    {"sm_61", 12000},   {"sm_62", 12000},   {"sm_70", 12000},   {"sm_72", 12000},
    {"sm_75", 12000},   {"sm_80", 12000},   {"sm_86", 12000},   {"sm_87", 12000},
    {"sm_89", 12000},   {"sm_90", 12000},   {"sm_90a", 12000},  {"sm_100", 12080},
    {"sm_100a", 12080}, {"sm_101", 12080},  {"sm_101a", 12080}, {"sm_120", 12080},
    {"sm_120a", 12080}, {"sm_100f", 12090}, {"sm_101f", 12090}, {"sm_120f", 12090},
    {"sm_103", 12090},  {"sm_103a", 12090}, {"sm_103f", 12090}, {"sm_121", 12090},
    {"sm_121a", 12090}, {"sm_121f", 12090}, {"sm_88", 13000},   {"sm_110", 13000},
    {"sm_110a", 13000}, {"sm_110f", 13000},
};

uint32_t image_min_driver(int nvrtc_major, int nvrtc_minor, const char *arch)
{
    uint32_t family = (uint32_t)nvrtc_major * 1000;
    for (size_t i = 0; i < sizeof introduced / sizeof *introduced; i++)
        if (strcmp(introduced[i].arch, arch) == 0)
            return introduced[i].toolkit > family ? introduced[i].toolkit : family;
    return family + (uint32_t)nvrtc_minor * 10;
}
