#ifndef COMPILE_WORKER_H
#define COMPILE_WORKER_H

/* What a worker says of a job. */
enum worker_outcome {
    WORKER_DONE,         /* a cubin */
    WORKER_REFUSED,      /* none: the error says why, and NVRTC's log where it has one */
    WORKER_UNKNOWN_ARCH, /* refused for its arch */
};

#endif
