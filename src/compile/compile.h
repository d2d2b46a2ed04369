#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/digest.h"
#include "base/mem.h"
#include "compile/cuda.h"

/* Compiles units in worker processes, several at once, from one poll loop. A worker is this
 * executable started again; it takes many jobs over its pipes and dies with us. */

/* Folders that exist for NVRTC alone, so that no machine's path reaches a cubin: CUDA's headers
 * (struct cuda's folders, laid over one another), the built-in C headers, and the current folder,
 * whose name no folder of a machine has: what is below it is looked for in the project. */
#define COMPILE_CUDA_ROOT "<cuda>"
#define COMPILE_HEADERS_ROOT "<kpack>"
#define COMPILE_CWD "/<project>"

enum compile_way {
    COMPILE_WHOLE,     /* NVRTC makes the cubin */
    COMPILE_LINKED,    /* NVRTC makes LTO-IR, and nvJitLink the cubin, of `kernels` alone if any */
    COMPILE_VARIABLES, /* the same, but PTX, without code when the source has no variables */
};

struct compile_unit {
    const char *name;         /* for people: "hopper/w8a16_gemm_pipelined" */
    const char *root;         /* absolute project root; the worker's current folder */
    const char *source;       /* root-relative: the program's name, and what __FILE__ says */
    const char *arch;         /* "sm_90a" */
    const char *const *flags; /* NVRTC options as the description gives them */
    size_t flag_count;
    const char *const *defines; /* "NAME=VALUE" */
    size_t define_count;
    const char *const
        *includes; /* root-relative; CUDA's own and the built-in ones are added last */
    size_t include_count;
    const char *const *expressions; /* C++ names of kernels that are to be instantiated */
    size_t expression_count;
    enum compile_way way;
    const char *const *link_options; /* nvJitLink's; the arch and the kernels are added */
    size_t link_option_count;
    const char *const *kernels; /* symbols, or texts of expressions */
    size_t kernel_count;
    struct loc loc;              /* where the description declares it */
    struct loc arch_loc;         /* its arch */
    const struct loc *flag_locs; /* by flag: the list that holds it */
    double expected_seconds;     /* what it took before; 0: unknown */
    uint64_t expected_bytes;     /* the peak of its worker then; 0: unknown */
};

enum compile_status {
    COMPILE_PENDING, /* not run: the build stopped before its turn */
    COMPILE_OK,
    COMPILE_FAILED,  /* NVRTC refused the source; the log says why */
    COMPILE_CRASHED, /* the worker died, ran past the time limit or past the memory limit */
};

/* What the ptxas log says of one entry, named as the cubin's symbol. Spills are of the entry and of
 * the functions compiled with it that ptxas did not inline; the ELF does not tell them. */
struct compile_spill {
    const char *entry;
    uint32_t store_bytes, load_bytes;
    uint32_t registers, smem_bytes; /* the same as the cubin's: for a cross-check */
};

/* A file whose bytes NVRTC was given. */
struct compile_input {
    const char *name; /* root-relative, under one of the roots above, or absolute if so written */
    struct digest digest;    /* of exactly those bytes */
    uint64_t dev, ino, size; /* of the file they came from; dev and ino 0: built in */
    int64_t mtime_ns, ctime_ns;
};

/* How it is known what a compile read. */
enum compile_inputs {
    COMPILE_SEEN,    /* NVRTC's own calls */
    COMPILE_SCANNED, /* its calls cannot be watched: all that the texts may include */
    COMPILE_UNKNOWN, /* the same, and an include names a macro: the result may not be reused */
};

struct compile_result {
    enum compile_status status;
    const void *cubin; /* in the arena */
    size_t cubin_size;
    const char *log;            /* NVRTC's, whole, ptxas's lines removed; "" when empty */
    const char *const *symbols; /* in the cubin, of the unit's expressions, in their order */
    size_t symbol_count;
    const struct compile_spill *spills;
    size_t spill_count;
    const struct compile_input *opened; /* the source first, then the headers, sorted by name */
    size_t opened_count;
    const char *const *missed; /* names tried that gave no readable file, sorted */
    size_t missed_count;
    enum compile_inputs inputs;
    double seconds;
    uint64_t peak_bytes; /* the worker's resident peak */
    int nvrtc_major, nvrtc_minor;
    unsigned worker;   /* which one of this run compiled it, from 0 */
    double begin, end; /* seconds since the run began, from handing it out to its answer */
};

/* Where the file behind a name of compile_result is, for depfiles and messages: NULL for a built-in
 * header, and for one of CUDA's that is not there (`cuda` NULL: none is). In the arena, or `name`.
 */
const char *compile_path(const char *name, const char *root, const struct cuda *cuda,
                         struct arena *arena);

enum compile_event {
    COMPILE_STARTED,
    COMPILE_FINISHED,
    COMPILE_TICK, /* about ten times a second while anything runs */
};

struct compile_options {
    const struct cuda *cuda;
    unsigned workers;       /* at least 1 */
    unsigned unit_timeout;  /* seconds; 0: none */
    uint64_t worker_memory; /* resident bytes one worker may use; 0: no limit */
    uint64_t memory;        /* bytes that the units of a moment may be expected to use; 0: any */
    struct jobserver *jobs; /* make's, asked for a slot for each unit but the first; may be NULL */
    bool keep_going;        /* go on with the rest after a unit failed */
    /* Called in the parent, unit == SIZE_MAX for a tick. What is to be said of a unit comes into
     * diags once all units before it are done, so that its order is theirs. */
    void (*event)(void *user, enum compile_event event, size_t unit);
    void *event_user;
    const volatile int *stop; /* set by a signal handler: stop all workers and return */
};

/* Compiles all units, those of unknown time first, the largest source first, then the longest;
 * results[i] belongs to units[i] and lives in the arena. Each failure adds errors that name the
 * unit: NVRTC's messages with file, line and caret; a crash, a signal, a time or memory limit with
 * its cause. Returns whether every unit is COMPILE_OK. */
bool compile_run(const struct compile_unit *units, size_t count,
                 const struct compile_options *options, struct arena *arena,
                 struct compile_result *out_results, struct diags *diags);

/* The worker's main: what main() calls when started as a worker, before anything else. */
int compile_worker_main(int argc, char **argv);
/* argv[1] of a worker. */
#define COMPILE_WORKER_ARG "--kpack-worker"

#endif
