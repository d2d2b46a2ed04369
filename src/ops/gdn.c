#include "ops/gdn.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "ops/ops_launch.h"
#include "ops/ops_tensor.h"
#include "ops/ops_util.h"

#define FLA "gated_delta_rule_fla"
#define TC "gated_delta_rule_chunk_tc"
#define WU_HOPPER "gdn_recompute_wu_hopper"
#define FWD_O_HOPPER "gdn_fwd_o_hopper"
#define WU_REGISTERS "gdn_recompute_wu_registers"
#define SPLIT "gdn_spine_hopper"
#define QUARTERS "gdn_spine_quarters"
#define FWD_O_PERSISTENT "gdn_fwd_o_persistent"

static const struct ops_constant constants[] = {
    {FLA, "K_DIM", GDN_K_DIM},
    {FLA, "V_DIM", GDN_V_DIM},
    {FLA, "CHUNK", GDN_CHUNK},
    {FLA, "DV_BLK", GDN_DV_BLK},
    {"gdn_chunk_fwd_o_mma8", "K_DIM", GDN_K_DIM},
    {"gdn_chunk_fwd_o_mma8", "V_DIM", GDN_V_DIM},
    {"gdn_chunk_fwd_o_mma8", "CHUNK", GDN_CHUNK},
    {TC, "K_DIM", GDN_K_DIM},
    {TC, "V_DIM", GDN_V_DIM},
    {TC, "CHUNK", GDN_CHUNK},
    {TC, "PITCH", GDN_PITCH},
    {TC, "PITCH_T", GDN_PITCH_T},
    {WU_HOPPER, "K_DIM", GDN_K_DIM},
    {WU_HOPPER, "V_DIM", GDN_V_DIM},
    {WU_HOPPER, "CHUNK", GDN_CHUNK},
    {WU_HOPPER, "PITCH", GDN_PITCH},
    {WU_HOPPER, "PITCH_T", GDN_PITCH_T},
    {WU_HOPPER, "PITCH_X", GDN_PITCH_X},
    {WU_REGISTERS, "K_DIM", GDN_K_DIM},
    {WU_REGISTERS, "V_DIM", GDN_V_DIM},
    {WU_REGISTERS, "CHUNK", GDN_CHUNK},
    {WU_REGISTERS, "K_SLOTS", GDN_WU_K_SLOTS},
    {WU_REGISTERS, "V_SLOTS", GDN_WU_V_SLOTS},
    {SPLIT, "K_DIM", GDN_K_DIM},
    {SPLIT, "V_DIM", GDN_V_DIM},
    {SPLIT, "CHUNK", GDN_CHUNK},
    {SPLIT, "STAGES", GDN_SPLIT_STAGES},
    {QUARTERS, "K_DIM", GDN_K_DIM},
    {QUARTERS, "V_DIM", GDN_V_DIM},
    {QUARTERS, "CHUNK", GDN_CHUNK},
    {QUARTERS, "STAGES", GDN_SPLIT_STAGES},
    {FWD_O_PERSISTENT, "K_DIM", GDN_K_DIM},
    {FWD_O_PERSISTENT, "V_DIM", GDN_V_DIM},
    {FWD_O_PERSISTENT, "CHUNK", GDN_CHUNK},
    {FWD_O_HOPPER, "K_DIM", GDN_K_DIM},
    {FWD_O_HOPPER, "V_DIM", GDN_V_DIM},
    {FWD_O_HOPPER, "CHUNK", GDN_CHUNK},
    {FWD_O_HOPPER, "PITCH", GDN_PITCH},
    {FWD_O_HOPPER, "PITCH_T", GDN_PITCH_T},
};

static struct ops_log log_of(const struct gdn *ops)
{
    return (struct ops_log){ops->message, ops->message_user};
}

kpk_status gdn_bind(kpk_image *image, const struct gdn_desc *desc, struct gdn *out_ops)
{
    static const struct gdn_desc defaults;
    struct ops_entry entries[GDN_KERNEL_COUNT];
    kpk_kernel kernels[GDN_KERNEL_COUNT];

    if (out_ops == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out_ops, 0, sizeof *out_ops);
    if (desc == NULL)
        desc = &defaults;
    struct ops_log log = {desc->message, desc->message_user};
    kpk_image_info info;
    kpk_status status = ops_describe(image, &log, "gdn_bind", &info);
    if (status != KPK_OK)
        return status;
    for (int i = 0; i < GDN_KERNEL_COUNT; i++) {
        const struct gdn_entry *entry = gdn_entry_of((enum gdn_kernel)i);
        entries[i] = (struct ops_entry){entry->module, entry->name, entry->block, entry->smem};
    }
    status = ops_check_constants(image, &log, constants, sizeof constants / sizeof *constants);
    if (status == KPK_OK)
        status = ops_resolve(image, &log, entries, GDN_KERNEL_COUNT, kernels);
    if (status != KPK_OK)
        return status;
    const char *vtile = ops_lever_text(image, "gdn_vtile", "");
    *out_ops = (struct gdn){
        .image = image,
        .message = desc->message,
        .message_user = desc->message_user,
        .sm_count = info.sm_count,
        .levers =
            {
                .tc = ops_lever(image, "gdn_prefill_tc", false),
                .no_remnants = ops_lever(image, "no_gdn_prefill_tc_remnants", false),
                .no_mma8 = ops_lever(image, "no_gdn_fwd_o_mma8", false),
                .tma = ops_lever(image, "gdn_tma", false),
                .vtile_off = strcmp(vtile, "0") == 0,
                .tc_vblock = ops_lever(image, "gdn_tc_vblock", false),
                .fused = gdn_fused_of(vtile, ops_lever_text(image, "gdn_pipe", "")),
            },
    };
    memcpy(out_ops->kernels, kernels, sizeof kernels);
    return KPK_OK;
}

/* ---- Profiling ---------------------------------------------------------------------------------
 */

typedef int (*stream_synchronize_fn)(struct CUstream_st *stream);

struct profile {
    bool on;
    stream_synchronize_fn synchronize;
    struct timespec start;
};

static kpk_status profile_sync(const struct gdn *ops, struct profile *p, struct CUstream_st *stream)
{
    struct ops_log log = log_of(ops);
    int result = p->synchronize(stream);

    if (result != 0)
        return ops_fail(&log, KPK_ERR_DRIVER,
                        "gdn_prefill_fla: cuStreamSynchronize returned CUDA error %d", result);
    return KPK_OK;
}

static kpk_status profile_begin(const struct gdn *ops, bool on, struct CUstream_st *stream,
                                struct profile *p)
{
    struct ops_log log = log_of(ops);
    void *symbol = NULL;

    *p = (struct profile){.on = on};
    if (!on)
        return KPK_OK;
    symbol = kpk_driver_symbol(ops->image, "cuStreamSynchronize");
    if (symbol == NULL)
        return ops_fail(&log, KPK_ERR_NO_DRIVER,
                        "gdn_prefill_fla: the driver has no cuStreamSynchronize");
    memcpy(&p->synchronize, &symbol, sizeof symbol);
    kpk_status status = profile_sync(ops, p, stream);
    clock_gettime(CLOCK_MONOTONIC, &p->start);
    return status;
}

static kpk_status profile_stage(const struct gdn *ops, struct profile *p, const char *label,
                                uint32_t tokens, struct CUstream_st *stream)
{
    struct ops_log log = log_of(ops);
    struct timespec now;

    if (!p->on)
        return KPK_OK;
    kpk_status status = profile_sync(ops, p, stream);
    if (status != KPK_OK)
        return status;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t elapsed =
        (now.tv_sec - p->start.tv_sec) * INT64_C(1000000000) + (now.tv_nsec - p->start.tv_nsec);
    ops_say(&log, KPK_INFO, "  SSM prefill [%s] N=%" PRIu32 ": %" PRId64 "µs", label, tokens,
            elapsed / 1000);
    clock_gettime(CLOCK_MONOTONIC, &p->start); /* the callback's time is no stage's */
    return KPK_OK;
}

/* ---- Launches ----------------------------------------------------------------------------------
 */

/* Whether a kernel waits by itself for the one before it to end. That one has ended only when what
 * it waited for has. The first of a call is never such a kernel, so that a call begins after all
 * that was launched before it. */
static bool waits_itself(enum gdn_kernel kernel)
{
    return kernel == GDN_X2_V32 || kernel == GDN_X2_V64 || kernel == GDN_FWD_O_PERSISTENT;
}

static kpk_status launch(const struct gdn *ops, const struct gdn_stage *stage,
                         struct CUstream_st *stream, void **arguments)
{
    struct ops_log log = log_of(ops);
    const kpk_kernel kernel = ops->kernels[stage->kernel];
    const kpk_grid block = {stage->block, 1, 1};
    kpk_status status =
        waits_itself(stage->kernel)
            ? ops_launch_overlapped(ops->image, &log, stage->entry, kernel, stage->grid, block,
                                    stage->smem, stream, arguments)
            : kpk_launch(ops->image, kernel, stage->grid, stage->smem, stream, arguments);

    if (status != KPK_OK)
        return ops_fail(&log, status, "gdn_prefill_fla: launching '%s' failed: %s", stage->entry,
                        kpk_status_text(status));
    return KPK_OK;
}

/* Rows of bf16 `columns` wide, in boxes of CHUNK rows by 128 columns. */
static struct ops_tensor_2d bf16_matrix(uint64_t address, uint64_t rows, uint64_t columns,
                                        uint64_t pitch)
{
    return (struct ops_tensor_2d){
        .type = OPS_TENSOR_BF16,
        .swizzle = OPS_TENSOR_PLAIN,
        .promotion = OPS_TENSOR_PROMOTE_NONE,
        .address = address,
        .columns = columns,
        .rows = rows,
        .pitch = pitch,
        .box_columns = GDN_K_DIM,
        .box_rows = GDN_CHUNK,
    };
}

/* The same in boxes of 64 columns, swizzled. */
static struct ops_tensor_2d bf16_halves(uint64_t address, uint64_t rows, uint64_t columns,
                                        uint64_t pitch)
{
    struct ops_tensor_2d tensor = bf16_matrix(address, rows, columns, pitch);

    tensor.swizzle = OPS_TENSOR_SWIZZLE_128;
    tensor.box_columns = GDN_SPLIT_COLUMNS;
    return tensor;
}

static kpk_status encode_maps(const struct gdn *ops, const char *const *names,
                              const struct ops_tensor_2d *matrices, size_t count,
                              struct ops_tensor_map *out_maps)
{
    const struct ops_log log = log_of(ops);
    const ops_tensor_encoder encoder = ops_tensor_encoder_of(ops->image);

    if (encoder == NULL)
        return ops_fail(&log, KPK_ERR_NO_DRIVER,
                        "gdn_prefill_fla: the driver has no cuTensorMapEncodeTiled");
    for (size_t i = 0; i < count; i++) {
        kpk_status status = ops_tensor_encode(encoder, &log, "gdn_prefill_fla", names[i],
                                              &matrices[i], &out_maps[i]);
        if (status != KPK_OK)
            return status;
    }
    return KPK_OK;
}

static kpk_status launch_tma(const struct gdn *ops, struct gdn_args *a, uint32_t is_table,
                             uint32_t is_varlen, const struct gdn_stage *stage,
                             struct CUstream_st *stream)
{
    const uint64_t rows = (uint64_t)a->batch * a->num_chunks * a->nv * GDN_CHUNK;
    const uint64_t tokens = (uint64_t)a->batch * a->seq_len;
    const struct ops_tensor_2d matrices[] = {
        bf16_matrix(a->w, rows, GDN_K_DIM, GDN_K_DIM),
        bf16_matrix(a->u, rows, GDN_V_DIM, GDN_V_DIM),
        /* Only the heads' columns: the packed row goes on past an interior key pointer. */
        bf16_matrix(a->key, tokens, (uint64_t)a->nk * GDN_K_DIM, a->qk_stride),
    };
    static const char *const names[] = {"W", "U", "K"};
    struct ops_tensor_map maps[3];
    kpk_status status = encode_maps(ops, names, matrices, 3, maps);

    if (status != KPK_OK)
        return status;
    void *arguments[] = {&a->h_state, &maps[0],  &maps[1],       &maps[2],       &a->gc,    &a->s,
                         &a->uc,      &a->batch, &a->seq_len,    &a->num_chunks, &a->nk,    &a->nv,
                         &a->v_dim,   &is_table, &a->cu_seqlens, &a->cu_chunks,  &is_varlen};
    return launch(ops, stage, stream, arguments);
}

/* The copy engine moves only whole chunks, so that the maps may count chunks that a varlen call
 * lacks; so in the next two. */
static kpk_status launch_wu(const struct gdn *ops, struct gdn_args *a, uint32_t is_varlen,
                            const struct gdn_stage *stage, struct CUstream_st *stream)
{
    const uint64_t tokens = (uint64_t)a->batch * a->num_chunks * GDN_CHUNK, rows = tokens * a->nv;
    const struct ops_tensor_2d matrices[] = {
        bf16_halves(a->key, tokens, (uint64_t)a->nk * GDN_K_DIM, a->qk_stride),
        bf16_halves(a->value, tokens, (uint64_t)a->nv * GDN_V_DIM, a->v_stride),
        bf16_halves(a->w, rows, GDN_K_DIM, GDN_K_DIM),
        bf16_halves(a->u, rows, GDN_V_DIM, GDN_V_DIM),
    };
    static const char *const names[] = {"K", "V", "W", "U"};
    struct ops_tensor_map maps[4];
    kpk_status status = encode_maps(ops, names, matrices, 4, maps);

    if (status != KPK_OK)
        return status;
    void *arguments[] = {&maps[0],      &maps[1],      &maps[2],     &maps[3],       &a->key,
                         &a->value,     &a->gate,      &a->beta,     &a->w,          &a->u,
                         &a->gc,        &a->batch,     &a->seq_len,  &a->num_chunks, &a->nk,
                         &a->nv,        &a->qk_stride, &a->v_stride, &a->gb_stride,  &a->cu_seqlens,
                         &a->cu_chunks, &is_varlen};
    return launch(ops, stage, stream, arguments);
}

/* A block takes half of v, or a quarter. */
static kpk_status launch_split(const struct gdn *ops, struct gdn_args *a, uint32_t is_table,
                               uint32_t is_varlen, const struct gdn_stage *stage,
                               struct CUstream_st *stream)
{
    const uint64_t chunks = (uint64_t)a->batch * a->num_chunks, blocks = chunks * a->nv;
    const bool quarters = stage->kernel == GDN_X2_V32;
    struct ops_tensor_2d matrices[] = {
        bf16_halves(a->w, blocks * GDN_CHUNK, GDN_K_DIM, GDN_K_DIM),
        bf16_halves(a->key, chunks * GDN_CHUNK, (uint64_t)a->nk * GDN_K_DIM, a->qk_stride),
        bf16_halves(a->u, blocks * GDN_CHUNK, GDN_V_DIM, GDN_V_DIM),
        bf16_halves(a->s, blocks * GDN_K_DIM, GDN_V_DIM, GDN_V_DIM),
        bf16_halves(a->uc, blocks * GDN_CHUNK, GDN_V_DIM, GDN_V_DIM),
        bf16_matrix(a->gc, blocks, GDN_CHUNK, GDN_CHUNK),
    };
    static const char *const names[] = {"W", "K", "U", "S", "uc", "gc"};
    struct ops_tensor_map maps[6];

    for (size_t i = 2; quarters && i < 5; i++) {
        matrices[i].swizzle = OPS_TENSOR_SWIZZLE_64;
        matrices[i].box_columns = GDN_QUARTER_COLUMNS;
    }
    matrices[3].box_rows = GDN_K_DIM;
    matrices[5].type = OPS_TENSOR_F32;
    matrices[5].box_columns = GDN_CHUNK;
    matrices[5].box_rows = 1;
    kpk_status status = encode_maps(ops, names, matrices, 6, maps);
    if (status != KPK_OK)
        return status;
    void *arguments[] = {&a->h_state,   &maps[0],  &maps[2],      &maps[1],    &maps[5],
                         &maps[3],      &maps[4],  &a->w,         &a->u,       &a->key,
                         &a->gc,        &a->uc,    &a->batch,     &a->seq_len, &a->num_chunks,
                         &a->nk,        &a->nv,    &a->qk_stride, &is_table,   &a->cu_seqlens,
                         &a->cu_chunks, &is_varlen};
    return launch(ops, stage, stream, arguments);
}

static kpk_status launch_persistent(const struct gdn *ops, struct gdn_args *a, uint32_t is_varlen,
                                    const struct gdn_stage *stage, struct CUstream_st *stream)
{
    const uint64_t chunks = (uint64_t)a->batch * a->num_chunks, blocks = chunks * a->nv;
    const uint64_t columns = (uint64_t)a->nk * GDN_K_DIM;
    struct ops_tensor_2d matrices[] = {
        bf16_halves(a->query, chunks * GDN_CHUNK, columns, a->qk_stride),
        bf16_halves(a->key, chunks * GDN_CHUNK, columns, a->qk_stride),
        bf16_halves(a->s, blocks * GDN_K_DIM, GDN_V_DIM, GDN_V_DIM),
        bf16_halves(a->uc, blocks * GDN_CHUNK, GDN_V_DIM, GDN_V_DIM),
    };
    static const char *const names[] = {"Q", "K", "S", "uc"};
    struct ops_tensor_map maps[4];

    matrices[2].box_rows = GDN_K_DIM;
    kpk_status status = encode_maps(ops, names, matrices, 4, maps);
    if (status != KPK_OK)
        return status;
    void *arguments[] = {&maps[0],       &maps[1],       &maps[2],  &maps[3],   &a->query,
                         &a->key,        &a->gc,         &a->uc,    &a->output, &a->batch,
                         &a->seq_len,    &a->num_chunks, &a->nk,    &a->nv,     &a->qk_stride,
                         &a->cu_seqlens, &a->cu_chunks,  &is_varlen};
    return launch(ops, stage, stream, arguments);
}

static kpk_status launch_stages(const struct gdn *ops, const struct gdn_args *args,
                                const struct gdn_route *route, struct CUstream_st *stream)
{
    struct gdn_args a = *args;
    uint32_t is_table = a.h_state_is_table, is_varlen = a.is_varlen;
    struct profile profile;

    kpk_status status = profile_begin(ops, a.profile, stream, &profile);
    if (status != KPK_OK)
        return status;

    void *wu[] = {&a.key,      &a.value,     &a.gate,       &a.beta,      &a.w,
                  &a.u,        &a.gc,        &a.batch,      &a.seq_len,   &a.num_chunks,
                  &a.nk,       &a.nv,        &a.k_dim,      &a.v_dim,     &a.qk_stride,
                  &a.v_stride, &a.gb_stride, &a.cu_seqlens, &a.cu_chunks, &is_varlen};
    if (route->wu.kernel == GDN_WU_REGISTERS)
        status = launch_wu(ops, &a, is_varlen, &route->wu, stream);
    else
        status = launch(ops, &route->wu, stream, wu);
    if (status == KPK_OK)
        status = profile_stage(ops, &profile, "gdn_fla_recompute_wu", a.seq_len, stream);
    if (status != KPK_OK)
        return status;

    void *spine[] = {&a.h_state,    &a.w,         &a.u,      &a.key,       &a.gate,       &a.gc,
                     &a.s,          &a.uc,        &a.batch,  &a.seq_len,   &a.num_chunks, &a.nk,
                     &a.nv,         &a.k_dim,     &a.v_dim,  &a.qk_stride, &a.gb_stride,  &is_table,
                     &a.cu_seqlens, &a.cu_chunks, &is_varlen};
    if (route->spine.kernel == GDN_TMA)
        status = launch_tma(ops, &a, is_table, is_varlen, &route->spine, stream);
    else if (route->spine.kernel == GDN_X2_V64 || route->spine.kernel == GDN_X2_V32)
        status = launch_split(ops, &a, is_table, is_varlen, &route->spine, stream);
    else
        status = launch(ops, &route->spine, stream, spine);
    if (status == KPK_OK)
        status = profile_stage(ops, &profile, "gdn_fla_chunk_delta_h", a.seq_len, stream);
    if (status != KPK_OK)
        return status;

    void *fwd_o[] = {&a.query,     &a.key,        &a.gate,      &a.gc,      &a.s,
                     &a.uc,        &a.output,     &a.batch,     &a.seq_len, &a.num_chunks,
                     &a.nk,        &a.nv,         &a.k_dim,     &a.v_dim,   &a.qk_stride,
                     &a.gb_stride, &a.cu_seqlens, &a.cu_chunks, &is_varlen};
    if (route->fwd_o.kernel == GDN_FWD_O_PERSISTENT)
        status = launch_persistent(ops, &a, is_varlen, &route->fwd_o, stream);
    else
        status = launch(ops, &route->fwd_o, stream, fwd_o);
    if (status == KPK_OK)
        status = profile_stage(ops, &profile, "gdn_fla_chunk_fwd_o", a.seq_len, stream);
    return status;
}

/* The lines of a route: a warning for each kernel that a lever asked for and that does not run, and
 * the spine that does. */
static void say_route(const struct gdn *ops, const struct gdn_route *route)
{
    struct ops_log log = log_of(ops);

    if (ops->levers.tc && !ops->levers.no_remnants) {
        if (route->wu_hopper != NULL)
            ops_say(&log, KPK_WARNING, "METRALE_GDN_PREFILL_TC set but %s is NOT running: %s",
                    gdn_entry_of(GDN_WU_HOPPER)->name, route->wu_hopper);
        if (route->fwd_o_hopper != NULL)
            ops_say(&log, KPK_WARNING, "METRALE_GDN_PREFILL_TC set but %s is NOT running: %s",
                    gdn_entry_of(GDN_FWD_O_HOPPER)->name, route->fwd_o_hopper);
    }
    if (ops->levers.tc && route->tcfuse_x2 != NULL)
        ops_say(&log, KPK_WARNING,
                "METRALE_GDN_PREFILL_TC set but tensor-core spine is NOT running: %s",
                route->tcfuse_x2);
    if (ops->levers.tma && route->tma != NULL)
        ops_say(&log, KPK_WARNING, "METRALE_GDN_TMA=1 but the TMA spine is NOT running: %s",
                route->tma);
    ops_say(&log, KPK_INFO, "GDN state spine: %s", route->spine.entry);
}

kpk_status gdn_prefill_fla(const struct gdn *ops, const struct gdn_args *args,
                           struct CUstream_st *stream, struct gdn_route *out_route)
{
    struct gdn_route local, *route = out_route != NULL ? out_route : &local;
    char text[256];

    *route = (struct gdn_route){
        .wu = {.module = "", .entry = ""},
        .spine = {.module = "", .entry = ""},
        .fwd_o = {.module = "", .entry = ""},
    };
    if (ops == NULL || args == NULL)
        return KPK_ERR_ARGUMENT;
    struct ops_log log = log_of(ops);
    kpk_status status = gdn_check(args, text, sizeof text);
    if (status != KPK_OK)
        return ops_fail(&log, status, "%s", text);
    if (gdn_is_empty(args))
        return KPK_OK;
    status = gdn_choose(ops, args, route, text, sizeof text);
    if (status != KPK_OK)
        return ops_fail(&log, status, "%s", text);
    say_route(ops, route);
    return launch_stages(ops, args, route, stream);
}
