/* Runs every GDN route on shapes of up to ten chunks, so that every ring of buffers goes round, for
 * compute-sanitizer:
 * gdn_sanitize LIBKPK LIBKPK_OPS IMAGE [ROUTES [FAULT]], which stops after that many. A fault shows
 * that the tools look: "short" leaves the output without its last 16 bytes, which memcheck must
 * report, "unwritten" the gates without their last value, which initcheck must.
 *
 * Inputs, outputs and scratch lie in exact allocations, so that a write past an end is one outside
 * an allocation; only the inputs are written, so that initcheck sees a read of what nobody wrote.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/gdn.h"

enum {
    NK = 1,
    NV = 2,
    STRIDE = (2 * NK + NV) * 128,
    MOST = 4
};

static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
    int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
    int (*cuMemsetD8_v2)(uint64_t, unsigned char, size_t);
    __typeof__(&kpk_open) kpk_open;
    __typeof__(&kpk_close) kpk_close;
    __typeof__(&kpk_bind) kpk_bind;
    __typeof__(&kpk_resolve) kpk_resolve;
    __typeof__(&gdn_bind) gdn_bind;
    __typeof__(&gdn_prefill_fla) gdn_prefill_fla;
    __typeof__(&gdn_scratch_sizes) gdn_scratch_sizes;
} fn;

static bool ran[GDN_KERNEL_COUNT];
static size_t output_lacks, gates_lack; /* bytes */
/* S and uc are full of NaNs before a call: initcheck does not count what the copy engine writes,
 * and reports each ordinary load of it. */
static bool filled;

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(1);
    }
}

static void say(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    if (severity == KPK_ERROR)
        fprintf(stderr, "%s\n", text);
}

static uint64_t allocate(size_t size)
{
    uint64_t address;

    must(fn.cuMemAlloc_v2(&address, size), "cuMemAlloc");
    return address;
}

static uint64_t upload(const void *bytes, size_t size)
{
    uint64_t address = allocate(size);

    must(fn.cuMemcpyHtoD_v2(address, bytes, size), "cuMemcpyHtoD");
    return address;
}

/* Bytes whose bf16 and f32 values lie in (0, 1), but for the last `unwritten`. */
static uint64_t values(size_t size, size_t unwritten, unsigned char seed)
{
    unsigned char *bytes = malloc(size);

    if (bytes == NULL)
        must(1, "malloc");
    for (size_t i = 0; i < size; i++)
        bytes[i] = i % 2 != 0 ? 0x3c + (unsigned char)((i / 2 + seed) % 3)
                              : (unsigned char)((i * 37 + seed) & 0x3f);
    uint64_t address = allocate(size);
    must(fn.cuMemcpyHtoD_v2(address, bytes, size - unwritten), "cuMemcpyHtoD");
    free(bytes);
    return address;
}

/* One call over sequences of `lens` tokens, `batch` of them. The packed rows begin `shift` bytes
 * past an aligned address and end with their allocation. */
static void call(const struct gdn *ops, const uint32_t *lens, uint32_t batch, bool varlen,
                 bool table, uint32_t shift)
{
    int32_t cu[MOST + 1] = {0};
    uint64_t states[MOST], freed[24];
    size_t count = 0;
    uint32_t chunks = 0;
    struct gdn_scratch need;
    struct gdn_route route;

    for (uint32_t b = 0; b < batch; b++) {
        cu[b + 1] = cu[b] + (int32_t)lens[b];
        chunks = (lens[b] + 63) / 64 > chunks ? (lens[b] + 63) / 64 : chunks;
    }
    const size_t tokens = (size_t)cu[batch], state = NV * 128 * 128 * 4;
    for (uint32_t b = 0; b < batch; b++)
        freed[count++] = states[b] = values(state, 0, (unsigned char)b);
    const uint64_t rows = values(shift + tokens * STRIDE * 2, 0, 1), row = rows + shift;
    const uint64_t gb = values(tokens * 2 * NV * 4, gates_lack, 2);
    struct gdn_args a = {
        .query = row,
        .key = row + NK * 128 * 2,
        .value = row + 2 * NK * 128 * 2,
        .gate = gb,
        .beta = gb + NV * 4,
        .output = allocate(tokens * NV * 128 * 2 - output_lacks),
        .h_state = table ? upload(states, batch * 8) : values(batch * state, 0, 3),
        .batch = batch,
        .seq_len = varlen ? 0 : lens[0],
        .num_chunks = chunks,
        .nk = NK,
        .nv = NV,
        .k_dim = 128,
        .v_dim = 128,
        .qk_stride = STRIDE,
        .v_stride = STRIDE,
        .gb_stride = 2 * NV,
        .h_state_is_table = table,
        .is_varlen = varlen,
        .cu_seqlens = varlen ? upload(cu, (batch + 1) * 4) : 0,
        .cu_seqlens_host = varlen ? cu : NULL,
        .total_tokens = tokens,
    };
    fn.gdn_scratch_sizes(&a, &need);
    a.w = allocate(need.w), a.u = allocate(need.u), a.s = allocate(need.s);
    a.uc = allocate(need.uc), a.gc = allocate(need.gc);
    if (filled) {
        must(fn.cuMemsetD8_v2(a.s, 0xff, need.s), "cuMemsetD8");
        must(fn.cuMemsetD8_v2(a.uc, 0xff, need.uc), "cuMemsetD8");
    }
    must(fn.gdn_prefill_fla(ops, &a, NULL, &route), "gdn_prefill_fla");
    must(fn.cuCtxSynchronize(), "cuCtxSynchronize");
    ran[route.wu.kernel] = ran[route.spine.kernel] = ran[route.fwd_o.kernel] = true;
    const uint64_t more[] = {rows, gb,  a.output, a.h_state, a.w,
                             a.u,  a.s, a.uc,     a.gc,      a.cu_seqlens};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i] != 0)
            freed[count++] = more[i];
    for (size_t i = 0; i < count; i++)
        must(fn.cuMemFree_v2(freed[i]), "cuMemFree");
}

static void *load(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL) {
        fprintf(stderr, "%s is missing\n", name);
        exit(1);
    }
    return symbol;
}

#define LOAD(library, name)                                                                        \
    do {                                                                                           \
        void *symbol = load(library, #name);                                                       \
        memcpy(&fn.name, &symbol, sizeof symbol);                                                  \
    } while (0)

int main(int argc, char **argv)
{
    static const char *const levers[] = {
        "METRALE_GDN_PREFILL_TC",   "METRALE_NO_GDN_PREFILL_TC_REMNANTS",
        "METRALE_GDN_TMA",          "METRALE_GDN_VTILE",
        "METRALE_GDN_PIPE",         "METRALE_GDN_TC_VBLOCK",
        "METRALE_NO_GDN_FWD_O_MMA8"};
    /* Values of the levers above, "" for unset. Every kernel runs in one of these or as what a twin
     * is taken from; _tcfuse, which no route takes, in the place of _tcfuse_x2. */
    static const char *const routes[][7] = {
        {"", "", "", "", "", "", ""},    {"", "1", "", "", "", "", "1"},
        {"0", "", "", "", "", "", ""},   {"0", "", "", "", "0", "", ""},
        {"0", "", "", "1", "", "", ""},  {"0", "", "1", "", "", "", ""},
        {"0", "", "", "0", "", "1", ""}, {"0", "", "", "0", "", "", "1"},
    };
    static const uint32_t uniform[] = {581, 581}, mixed[] = {0, 395, 0, 3};
    const kpk_open_desc desc = {.message = say};
    const struct gdn_desc bind_desc = {.message = say};
    kpk_image *image;
    struct gdn ops;
    void *context;

    if (argc < 4 || argc > 6)
        must(2, "usage: gdn_sanitize LIBKPK LIBKPK_OPS IMAGE [ROUTES [FAULT]]");
    if (argc == 6 && strcmp(argv[5], "short") == 0)
        output_lacks = 16;
    else if (argc == 6 && strcmp(argv[5], "unwritten") == 0)
        gates_lack = 4;
    else if (argc == 6)
        must(2, "a fault is 'short' or 'unwritten'");
    const size_t most = argc >= 5 ? strtoul(argv[4], NULL, 10) : SIZE_MAX;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *kpk = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    void *library = dlopen(argv[2], RTLD_NOW);
    if (driver == NULL || kpk == NULL || library == NULL)
        must(1, dlerror());
    LOAD(driver, cuInit);
    LOAD(driver, cuDevicePrimaryCtxRetain);
    LOAD(driver, cuCtxSetCurrent);
    LOAD(driver, cuCtxSynchronize);
    LOAD(driver, cuMemAlloc_v2);
    LOAD(driver, cuMemFree_v2);
    LOAD(driver, cuMemcpyHtoD_v2);
    LOAD(driver, cuMemsetD8_v2);
    LOAD(kpk, kpk_open);
    LOAD(kpk, kpk_close);
    LOAD(kpk, kpk_bind);
    LOAD(kpk, kpk_resolve);
    LOAD(library, gdn_bind);
    LOAD(library, gdn_prefill_fla);
    LOAD(library, gdn_scratch_sizes);
    must(fn.cuInit(0), "cuInit");
    must(fn.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(fn.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(fn.kpk_open(argv[3], &desc, &image), "kpk_open");
    must(fn.kpk_bind(image, 0), "kpk_bind");
    for (size_t r = 0; r < sizeof routes / sizeof *routes && r < most; r++) {
        for (size_t i = 0; i < sizeof levers / sizeof *levers; i++) {
            if (routes[r][i][0] != '\0')
                setenv(levers[i], routes[r][i], 1);
            else
                unsetenv(levers[i]);
        }
        filled = routes[r][1][0] != '\0'; /* the Hopper spines with the parent's output */
        must(fn.gdn_bind(image, &bind_desc, &ops), "gdn_bind");
        call(&ops, uniform, 2, false, false, 0);
        call(&ops, mixed, 4, true, true, 0);
        call(&ops, mixed, 4, true, true, 2); /* the scalar kernels */
        if (!ops.levers.tc)
            continue;
        ops.kernels[GDN_X2_V32].id = 0; /* by halves of v */
        call(&ops, uniform, 2, false, false, 0);
        call(&ops, mixed, 4, true, true, 0);
        ops.kernels[GDN_X2_V64].id = 0; /* the twins' parents */
        ops.kernels[GDN_WU_REGISTERS].id = ops.kernels[GDN_FWD_O_PERSISTENT].id = 0;
        call(&ops, uniform, 2, false, false, 0);
        call(&ops, mixed, 4, true, true, 0);
        ops.kernels[GDN_TCFUSE_X2] = fn.kpk_resolve(image, "gated_delta_rule_chunk_tc",
                                                    "gated_delta_rule_chunk_delta_h_tcfuse");
        call(&ops, uniform, 2, false, false, 0);
        call(&ops, mixed, 4, true, true, 0);
    }
    unsigned missing = 0;
    for (int k = 0; k < GDN_KERNEL_COUNT; k++)
        missing += !ran[k] && ops.kernels[k].id != 0;
    fn.kpk_close(image);
    printf("%s; kernels that did not run: %u of %d\n",
           argc >= 5 ? "the routes asked for ran" : "every route ran", missing, GDN_KERNEL_COUNT);
    return argc == 4 && missing != 0;
}
