#ifndef OPS_OPS_LAUNCH_H
#define OPS_OPS_LAUNCH_H

/* Launches that kpk_launch cannot express. */

#include "ops/ops_util.h"

enum {
    OPS_LAUNCH_OVERLAPPED = 6, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
};

/* CUlaunchAttribute and CUlaunchConfig; a test compares both with cuda.h. */
struct ops_launch_attribute {
    int id;
    union {
        int overlapped;
        uint64_t all[8];
    } value;
};

struct ops_launch_config {
    kpk_grid grid, block;
    uint32_t smem;
    struct CUstream_st *stream;
    struct ops_launch_attribute *attributes;
    uint32_t attribute_count;
};

/* As kpk_launch_block, but `kernel` may begin before the one launched before it on the stream has
 * ended: once each block of that one has ended or executed griddepcontrol.launch_dependents. So it
 * must execute griddepcontrol.wait before it touches what another kernel writes, or writes what
 * another reads. In a captured stream this is a programmatic edge. With a driver that lacks
 * cuLaunchKernelEx it begins after the other. `name` is for the message. */
kpk_status ops_launch_overlapped(kpk_image *image, const struct ops_log *log, const char *name,
                                 kpk_kernel kernel, kpk_grid grid, kpk_grid block, uint32_t smem,
                                 struct CUstream_st *stream, void **args);

#endif
