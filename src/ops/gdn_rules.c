#include "ops/gdn.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_GRID_YZ 65535u

#define FLA "gated_delta_rule_fla"
#define DELTA_H "gated_delta_rule_chunk_delta_h"

const struct gdn_entry *gdn_entry_of(enum gdn_kernel kernel)
{
    static const struct gdn_entry entries[GDN_KERNEL_COUNT] = {
        [GDN_WU] = {FLA, "gated_delta_rule_recompute_wu", GDN_WU_BLOCK, GDN_WU_SMEM},
        [GDN_WU_HOPPER] = {"gdn_recompute_wu_hopper", "gated_delta_rule_recompute_wu_hopper",
                           GDN_WU_HOPPER_BLOCK, GDN_WU_HOPPER_SMEM},
        [GDN_WU_REGISTERS] = {"gdn_recompute_wu_registers",
                              "gated_delta_rule_recompute_wu_registers", GDN_WU_REGISTERS_BLOCK,
                              GDN_WU_REGISTERS_SMEM},
        [GDN_KSPLIT] = {FLA, DELTA_H "_ksplit", GDN_SPINE_BLOCK, GDN_SPINE_SMEM},
        [GDN_VFUSED] = {FLA, DELTA_H "_vfused", GDN_SPINE_BLOCK, GDN_FUSED_SMEM},
        [GDN_PIPE] = {FLA, DELTA_H "_pipe", GDN_SPINE_BLOCK, GDN_SPINE_SMEM},
        [GDN_VTILE] = {FLA, DELTA_H "_vtile", GDN_VTILE_BLOCK, GDN_FUSED_SMEM},
        [GDN_TC_VBLOCK] = {FLA, DELTA_H "_tc_vblock", GDN_SPINE_BLOCK, GDN_VBLOCK_SMEM},
        [GDN_TMA] = {FLA, DELTA_H "_tma", GDN_SPINE_BLOCK, GDN_SPINE_SMEM},
        [GDN_TCFUSE_X2] = {"gated_delta_rule_chunk_tc", DELTA_H "_tcfuse_x2", GDN_SPINE_BLOCK,
                           GDN_TC_SMEM},
        [GDN_X2_V32] = {"gdn_spine_quarters", DELTA_H "_tcfuse_x2_v32", GDN_QUARTER_BLOCK,
                        GDN_QUARTER_SMEM},
        [GDN_X2_V64] = {"gdn_spine_hopper", DELTA_H "_tcfuse_x2_v64", GDN_SPLIT_BLOCK,
                        GDN_SPLIT_SMEM},
        [GDN_FWD_O] = {FLA, "gated_delta_rule_chunk_fwd_o", GDN_FWD_O_BLOCK, GDN_FWD_O_SMEM},
        [GDN_FWD_O_MMA8] = {"gdn_chunk_fwd_o_mma8", "gated_delta_rule_chunk_fwd_o_mma8",
                            GDN_FWD_O_BLOCK, GDN_FWD_O_SMEM},
        [GDN_FWD_O_HOPPER] = {"gdn_fwd_o_hopper", "gated_delta_rule_chunk_fwd_o_hopper",
                              GDN_FWD_O_BLOCK, GDN_FWD_O_HOPPER_SMEM},
        [GDN_FWD_O_PERSISTENT] = {"gdn_fwd_o_persistent", "gated_delta_rule_chunk_fwd_o_persistent",
                                  GDN_FWD_O_PERSISTENT_BLOCK, GDN_FWD_O_PERSISTENT_SMEM},
    };

    return &entries[kernel];
}

/* ---- Guards ------------------------------------------------------------------------------------
 */

static bool tile_differs(uint32_t k_dim, uint32_t v_dim, uint32_t chunk)
{
    return k_dim != GDN_K_DIM || v_dim != GDN_V_DIM || chunk != GDN_CHUNK;
}

static const char absent[] = "kernel absent from this image";
static const char many_rows[] = "the scratch has more rows than a descriptor's coordinate counts";

const char *gdn_tc_spine_reject(bool requested, bool kernel_present, uint32_t k_dim, uint32_t v_dim,
                                uint32_t chunk, uint32_t qk_stride)
{
    if (!requested)
        return "not requested";
    if (!kernel_present)
        return absent;
    if (tile_differs(k_dim, v_dim, chunk))
        return "head/chunk differs from the compile-time tile (K_DIM=V_DIM=128, CHUNK=64)";
    if (qk_stride % 8 != 0)
        return "qk_stride is not a multiple of 8 (the K staging uses 16-byte vector loads)";
    return NULL;
}

const char *gdn_tma_reject(bool requested, bool tc_runs, bool kernel_present, bool is_varlen,
                           uint32_t k_dim, uint32_t v_dim, uint32_t chunk, uint32_t qk_stride)
{
    if (!requested)
        return "not requested";
    if (tc_runs)
        return "METRALE_GDN_PREFILL_TC is active and takes precedence";
    if (!kernel_present)
        return absent;
    if (is_varlen)
        return "varlen: choff comes from cu_chunks, so the descriptor's flat row count is unknown "
               "host-side";
    if (tile_differs(k_dim, v_dim, chunk))
        return "head/chunk differs from the compile-time tile the descriptors encode";
    if (qk_stride % 8 != 0)
        return "qk_stride is not a multiple of 8 (bf16 row pitch must be 16-byte aligned)";
    return NULL;
}

const char *gdn_twin_reject(bool requested, bool no_remnants, bool kernel_present, uint32_t k_dim,
                            uint32_t v_dim, uint32_t chunk)
{
    if (!requested)
        return "not requested";
    if (no_remnants)
        return "METRALE_NO_GDN_PREFILL_TC_REMNANTS=1 pins the parent";
    if (!kernel_present)
        return absent;
    if (tile_differs(k_dim, v_dim, chunk))
        return "head/chunk differs from the compile-time tile (K_DIM=V_DIM=128, CHUNK=64)";
    return NULL;
}

const char *gdn_mma8_reject(bool twin_runs, bool kernel_present, bool lever_forbids, uint32_t k_dim,
                            uint32_t v_dim)
{
    if (twin_runs)
        return "the Hopper twin runs";
    if (tile_differs(k_dim, v_dim, GDN_CHUNK))
        return "head differs from the compile-time tile (K_DIM=V_DIM=128)";
    if (!kernel_present)
        return absent;
    if (lever_forbids)
        return "METRALE_NO_GDN_FWD_O_MMA8 is set";
    return NULL;
}

const char *gdn_fused_reject(bool vtile_off, bool kernel_present)
{
    if (!kernel_present)
        return absent;
    return vtile_off ? "METRALE_GDN_VTILE=0" : NULL;
}

const char *gdn_tc_vblock_reject(bool requested, bool kernel_present, uint32_t batch)
{
    if (!kernel_present)
        return absent;
    if (!requested)
        return "not requested";
    if (batch > MAX_GRID_YZ / (GDN_V_DIM / GDN_DV_BLK))
        return "the batch exceeds the grid (two blocks of rows a sequence)";
    return NULL;
}

enum gdn_fused gdn_fused_of(const char *vtile, const char *pipe)
{
    if (strcmp(pipe, "1") == 0)
        return GDN_FUSED_PIPE;
    if (strcmp(vtile, "1") == 0)
        return GDN_FUSED_VTILE;
    return strcmp(pipe, "0") == 0 ? GDN_FUSED_VFUSED : GDN_FUSED_PIPE;
}

const char *gdn_vector_reject(uint64_t query, uint64_t key, uint64_t value, uint32_t qk_stride,
                              uint32_t v_stride)
{
    if (qk_stride % 8 != 0)
        return "qk_stride is not a multiple of 8 (16-byte loads)";
    if (key % 16 != 0)
        return "key is not 16-byte aligned";
    if (query % 16 != 0)
        return "query is not 16-byte aligned";
    if (value % 4 != 0 || (value != 0 && v_stride % 2 != 0))
        return "value or v_stride is not 4-byte aligned";
    return NULL;
}

const char *gdn_wide_value_reject(uint64_t value, uint32_t v_stride)
{
    if (value % 16 != 0 || v_stride % 8 != 0)
        return "value or v_stride is not 16-byte aligned";
    return NULL;
}

/* ---- Checks ------------------------------------------------------------------------------------
 */

static uint64_t chunks_of(uint64_t tokens)
{
    return tokens / GDN_CHUNK + (tokens % GDN_CHUNK != 0);
}

bool gdn_is_empty(const struct gdn_args *a)
{
    return a->batch == 0 || a->num_chunks == 0 || (!a->is_varlen && a->seq_len == 0);
}

/* a * b, or UINT64_MAX: a size that wraps would pass a check. */
static uint64_t times(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

void gdn_scratch_sizes(const struct gdn_args *a, struct gdn_scratch *out_scratch)
{
    uint64_t chunks = (uint64_t)a->batch * a->num_chunks;

    if (a->is_varlen && a->cu_seqlens_host != NULL) {
        chunks = 0;
        for (uint32_t b = 0; b < a->batch; b++)
            chunks +=
                chunks_of((uint64_t)((int64_t)a->cu_seqlens_host[b + 1] - a->cu_seqlens_host[b]));
    }
    const uint64_t blocks = times(chunks, a->nv);

    *out_scratch = (struct gdn_scratch){
        .w = times(blocks, GDN_CHUNK * GDN_K_DIM * 2),
        .u = times(blocks, GDN_CHUNK * GDN_V_DIM * 2),
        .s = times(blocks, GDN_K_DIM * GDN_V_DIM * 2),
        .uc = times(blocks, GDN_CHUNK * GDN_V_DIM * 2),
        .gc = times(blocks, GDN_CHUNK * 4),
        .blocks = blocks,
    };
}

static kpk_status refuse(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static kpk_status refuse(char *text, size_t size, const char *format, ...)
{
    static const char name[] = "gdn_prefill_fla: ";
    va_list args;

    int used = snprintf(text, size, "%s", name);
    va_start(args, format);
    if ((size_t)used < size)
        vsnprintf(text + used, size - (size_t)used, format, args);
    va_end(args);
    return KPK_ERR_UNSUPPORTED;
}

static kpk_status check_shape(const struct gdn_args *a, char *text, size_t size)
{
    if (tile_differs(a->k_dim, a->v_dim, GDN_CHUNK))
        return refuse(text, size,
                      "k_dim=%" PRIu32 ", v_dim=%" PRIu32 " must be %u and %u, the kernels' tile",
                      a->k_dim, a->v_dim, GDN_K_DIM, GDN_V_DIM);
    if (a->nk == 0 || a->nv == 0 || a->nv % a->nk != 0)
        return refuse(text, size, "nv=%" PRIu32 " must be a positive multiple of nk=%" PRIu32,
                      a->nv, a->nk);
    if (a->nv > MAX_GRID_YZ || a->batch > MAX_GRID_YZ || a->num_chunks > INT32_MAX)
        return refuse(text, size,
                      "nv=%" PRIu32 ", batch=%" PRIu32 " and num_chunks=%" PRIu32
                      " must fit the grid (%u, %u and %d)",
                      a->nv, a->batch, a->num_chunks, MAX_GRID_YZ, MAX_GRID_YZ, INT32_MAX);
    if (a->qk_stride < (uint64_t)a->nk * GDN_K_DIM || a->v_stride < (uint64_t)a->nv * GDN_V_DIM ||
        a->gb_stride < a->nv)
        return refuse(text, size,
                      "strides (qk=%" PRIu32 ", v=%" PRIu32 ", gb=%" PRIu32
                      ") must cover nk=%" PRIu32 " key heads and nv=%" PRIu32 " value heads",
                      a->qk_stride, a->v_stride, a->gb_stride, a->nk, a->nv);
    if (!a->is_varlen && a->num_chunks != chunks_of(a->seq_len))
        return refuse(text, size, "num_chunks=%" PRIu32 " must be %" PRIu64 " for seq_len=%" PRIu32,
                      a->num_chunks, chunks_of(a->seq_len), a->seq_len);
    if (!a->is_varlen && a->total_tokens != 0 && (uint64_t)a->batch * a->seq_len > a->total_tokens)
        return refuse(text, size,
                      "batch=%" PRIu32 " sequences of %" PRIu32 " tokens exceed the %" PRIu64
                      " rows given",
                      a->batch, a->seq_len, a->total_tokens);
    return KPK_OK;
}

static kpk_status check_offsets(const struct gdn_args *a, char *text, size_t size)
{
    const int32_t *cu = a->cu_seqlens_host;
    uint64_t longest = 0;

    if (cu[0] < 0)
        return refuse(text, size, "cu_seqlens[0]=%" PRId32 " must not be negative", cu[0]);
    for (uint32_t b = 0; b < a->batch; b++) {
        if (cu[b + 1] < cu[b])
            return refuse(text, size,
                          "cu_seqlens must not decrease: [%" PRIu32 "]=%" PRId32
                          " follows %" PRId32,
                          b + 1, cu[b + 1], cu[b]);
        const uint64_t chunks = chunks_of((uint64_t)(cu[b + 1] - cu[b]));
        if (chunks > longest)
            longest = chunks;
    }
    if (a->total_tokens != 0 && (uint64_t)cu[a->batch] > a->total_tokens)
        return refuse(text, size,
                      "cu_seqlens[%" PRIu32 "]=%" PRId32 " exceeds the %" PRIu64 " rows given",
                      a->batch, cu[a->batch], a->total_tokens);
    if (a->num_chunks != longest)
        return refuse(text, size,
                      "num_chunks=%" PRIu32 " must be %" PRIu64
                      ", the maximum over the sequences of cu_seqlens",
                      a->num_chunks, longest);
    return KPK_OK;
}

static kpk_status check_pointers(const struct gdn_args *a, char *text, size_t size)
{
    const struct {
        const char *name;
        uint64_t address, alignment;
    } pointers[] = {
        {"h_state", a->h_state, a->h_state_is_table ? 8 : 16},
        {"query", a->query, 2},
        {"key", a->key, 2},
        {"value", a->value, 2},
        {"gate", a->gate, 4},
        {"beta", a->beta, 4},
        {"output", a->output, 16},
        {"w", a->w, 16},
        {"u", a->u, 16},
        {"s", a->s, 16},
        {"uc", a->uc, 16},
        {"gc", a->gc, 16},
    };
    struct gdn_scratch need;

    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        if (pointers[i].address == 0 || pointers[i].address % pointers[i].alignment != 0)
            return refuse(text, size,
                          "%s=0x%" PRIx64 " must be an address aligned to %" PRIu64 " bytes",
                          pointers[i].name, pointers[i].address, pointers[i].alignment);
    if (a->is_varlen && (a->cu_seqlens == 0 || a->cu_seqlens % 4 != 0))
        return refuse(text, size,
                      "a varlen call needs cu_seqlens (0x%" PRIx64 "), an address aligned to 4",
                      a->cu_seqlens);
    if (!a->is_varlen && a->cu_seqlens != 0)
        return refuse(text, size, "cu_seqlens is given but is_varlen is false");
    gdn_scratch_sizes(a, &need);
    const struct {
        const char *name;
        uint64_t has, needs;
    } scratch[] = {
        {"w", a->w_bytes, need.w},    {"u", a->u_bytes, need.u},    {"s", a->s_bytes, need.s},
        {"uc", a->uc_bytes, need.uc}, {"gc", a->gc_bytes, need.gc},
    };
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        if (scratch[i].has != 0 && scratch[i].has < scratch[i].needs)
            return refuse(text, size,
                          "scratch %s has %" PRIu64 " bytes and needs %" PRIu64 " (%" PRIu64
                          " blocks)",
                          scratch[i].name, scratch[i].has, scratch[i].needs, need.blocks);
    if (a->h_state_is_table && a->h_state_host != NULL)
        for (uint32_t b = 0; b < a->batch; b++)
            if (a->h_state_host[b] == 0 || a->h_state_host[b] % 16 != 0)
                return refuse(text, size,
                              "h_state[%" PRIu32 "]=0x%" PRIx64
                              " must be an address aligned to 16 bytes",
                              b, a->h_state_host[b]);
    return KPK_OK;
}

kpk_status gdn_check(const struct gdn_args *args, char *text, size_t size)
{
    if (size > 0)
        text[0] = '\0';
    const bool has_offsets = args->is_varlen && args->cu_seqlens_host != NULL && args->batch != 0;
    if (gdn_is_empty(args)) /* or only miscounted */
        return has_offsets ? check_offsets(args, text, size) : KPK_OK;
    kpk_status status = check_shape(args, text, size);
    if (status == KPK_OK && has_offsets)
        status = check_offsets(args, text, size);
    if (status == KPK_OK)
        status = check_pointers(args, text, size);
    return status;
}

/* ---- The route ---------------------------------------------------------------------------------
 */

static struct gdn_stage stage_of(enum gdn_kernel kernel, uint32_t x, uint32_t y, uint32_t z)
{
    const struct gdn_entry *entry = gdn_entry_of(kernel);

    return (struct gdn_stage){kernel,    entry->module, entry->name,
                              {x, y, z}, entry->block,  entry->smem};
}

static bool has(const struct gdn *ops, enum gdn_kernel kernel)
{
    return ops->kernels[kernel].id != 0;
}

static const char *either(const char *first, const char *second)
{
    return first != NULL ? first : second;
}

/* A lever that asks for _tma gets the reason why a tensor-core spine runs instead. */
static void report_tma(const struct gdn *ops, const struct gdn_args *a, struct gdn_route *route)
{
    if (ops->levers.tma)
        route->tma = gdn_tma_reject(true, true, has(ops, GDN_TMA), a->is_varlen, a->k_dim, a->v_dim,
                                    GDN_CHUNK, a->qk_stride);
}

/* Why a descriptor's coordinates cannot count S's rows, the most of the scratch. */
static const char *too_many_rows(const struct gdn_args *a)
{
    return (uint64_t)a->batch * a->num_chunks * a->nv * GDN_K_DIM > INT32_MAX ? many_rows : NULL;
}

/* A block of a quarter of v takes a multiprocessor for itself: more heads than one wave holds are
 * sooner done by halves. */
static const char *too_many_quarters(const struct gdn *ops, const struct gdn_args *a)
{
    return (uint64_t)a->nv * a->batch * (GDN_V_DIM / GDN_QUARTER_COLUMNS) > ops->sm_count
               ? "four blocks a head are more than the multiprocessors"
               : NULL;
}

static struct gdn_stage choose_spine(const struct gdn *ops, const struct gdn_args *a,
                                     struct gdn_route *route)
{
    const struct gdn_levers *levers = &ops->levers;
    const char *vector = gdn_vector_reject(0, a->key, 0, a->qk_stride, 0);
    const uint64_t rows = (uint64_t)a->batch * a->num_chunks * a->nv * GDN_CHUNK;
    static const enum gdn_kernel fused_kernels[] = {
        [GDN_FUSED_PIPE] = GDN_PIPE,
        [GDN_FUSED_VFUSED] = GDN_VFUSED,
        [GDN_FUSED_VTILE] = GDN_VTILE,
    };

    route->x2_halves = either(either(gdn_tc_spine_reject(levers->tc, has(ops, GDN_X2_V64), a->k_dim,
                                                         a->v_dim, GDN_CHUNK, a->qk_stride),
                                     vector),
                              too_many_rows(a));
    route->x2_quarters =
        either(either(gdn_tc_spine_reject(levers->tc, has(ops, GDN_X2_V32), a->k_dim, a->v_dim,
                                          GDN_CHUNK, a->qk_stride),
                      vector),
               either(too_many_rows(a), too_many_quarters(ops, a)));
    if (route->x2_quarters == NULL) {
        report_tma(ops, a, route);
        return stage_of(GDN_X2_V32, a->nv * (GDN_V_DIM / GDN_QUARTER_COLUMNS), a->batch, 1);
    }
    if (route->x2_halves == NULL) {
        report_tma(ops, a, route);
        return stage_of(GDN_X2_V64, a->nv * (GDN_V_DIM / GDN_SPLIT_COLUMNS), a->batch, 1);
    }
    route->tcfuse_x2 = either(gdn_tc_spine_reject(levers->tc, has(ops, GDN_TCFUSE_X2), a->k_dim,
                                                  a->v_dim, GDN_CHUNK, a->qk_stride),
                              vector);
    if (route->tcfuse_x2 == NULL) {
        report_tma(ops, a, route);
        return stage_of(GDN_TCFUSE_X2, a->nv, a->batch, 1);
    }
    route->tma = either(gdn_tma_reject(levers->tma, false, has(ops, GDN_TMA), a->is_varlen,
                                       a->k_dim, a->v_dim, GDN_CHUNK, a->qk_stride),
                        vector);
    if (route->tma == NULL && rows > INT32_MAX)
        route->tma = many_rows;
    if (route->tma == NULL)
        return stage_of(GDN_TMA, a->nv, a->batch, 1);
    if (vector != NULL) {
        route->fused = levers->fused == GDN_FUSED_VFUSED ? NULL : vector;
        route->tc_vblock = vector;
        return stage_of(GDN_VFUSED, a->nv, a->batch, 1);
    }
    const enum gdn_kernel fused = fused_kernels[levers->fused];
    route->fused = gdn_fused_reject(levers->vtile_off, has(ops, fused));
    if (route->fused == NULL)
        return stage_of(fused, a->nv, a->batch, 1);
    route->tc_vblock = gdn_tc_vblock_reject(levers->tc_vblock, has(ops, GDN_TC_VBLOCK), a->batch);
    if (route->tc_vblock == NULL)
        return stage_of(GDN_TC_VBLOCK, a->nv, a->batch * (GDN_V_DIM / GDN_DV_BLK), 1);
    return stage_of(GDN_KSPLIT, a->nv, a->batch, 1);
}

/* Two blocks a multiprocessor, each of which takes one chunk of one head after another. */
static struct gdn_stage persistent(enum gdn_kernel kernel, const struct gdn *ops,
                                   const struct gdn_args *a)
{
    const uint64_t tiles = (uint64_t)a->batch * a->num_chunks * a->nv;
    const uint64_t at_once = 2 * (uint64_t)ops->sm_count;

    return stage_of(kernel, (uint32_t)(at_once == 0 || tiles < at_once ? tiles : at_once), 1, 1);
}

static struct gdn_stage choose_wu(const struct gdn *ops, const struct gdn_args *a,
                                  struct gdn_route *route)
{
    const struct gdn_levers *levers = &ops->levers;
    const char *vector = gdn_vector_reject(0, a->key, a->value, a->qk_stride, a->v_stride);

    route->wu_registers =
        either(either(gdn_twin_reject(levers->tc, levers->no_remnants, has(ops, GDN_WU_REGISTERS),
                                      a->k_dim, a->v_dim, GDN_CHUNK),
                      vector),
               either(gdn_wide_value_reject(a->value, a->v_stride), too_many_rows(a)));
    if (route->wu_registers == NULL)
        return persistent(GDN_WU_REGISTERS, ops, a);
    route->wu_hopper =
        either(gdn_twin_reject(levers->tc, levers->no_remnants, has(ops, GDN_WU_HOPPER), a->k_dim,
                               a->v_dim, GDN_CHUNK),
               vector);
    return stage_of(route->wu_hopper == NULL ? GDN_WU_HOPPER : GDN_WU, a->num_chunks, a->nv,
                    a->batch);
}

static struct gdn_stage choose_fwd_o(const struct gdn *ops, const struct gdn_args *a,
                                     struct gdn_route *route)
{
    const struct gdn_levers *levers = &ops->levers;
    const char *vector = gdn_vector_reject(a->query, a->key, 0, a->qk_stride, 0);
    enum gdn_kernel kernel = GDN_FWD_O_HOPPER;

    route->fwd_o_persistent = either(
        either(gdn_twin_reject(levers->tc, levers->no_remnants, has(ops, GDN_FWD_O_PERSISTENT),
                               a->k_dim, a->v_dim, GDN_CHUNK),
               vector),
        too_many_rows(a));
    if (route->fwd_o_persistent == NULL)
        return persistent(GDN_FWD_O_PERSISTENT, ops, a);
    route->fwd_o_hopper =
        either(gdn_twin_reject(levers->tc, levers->no_remnants, has(ops, GDN_FWD_O_HOPPER),
                               a->k_dim, a->v_dim, GDN_CHUNK),
               vector);
    if (route->fwd_o_hopper != NULL) {
        route->mma8 = either(
            gdn_mma8_reject(false, has(ops, GDN_FWD_O_MMA8), levers->no_mma8, a->k_dim, a->v_dim),
            vector);
        kernel = route->mma8 == NULL ? GDN_FWD_O_MMA8 : GDN_FWD_O;
    }
    return stage_of(kernel, a->num_chunks, a->nv, a->batch);
}

kpk_status gdn_choose(const struct gdn *ops, const struct gdn_args *a, struct gdn_route *out_route,
                      char *text, size_t size)
{
    struct gdn_route route = {0};

    route.wu = choose_wu(ops, a, &route);

    route.fwd_o = choose_fwd_o(ops, a, &route);
    route.spine = choose_spine(ops, a, &route);

    const struct gdn_stage *stages[] = {&route.wu, &route.spine, &route.fwd_o};
    *out_route = route;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (!has(ops, stages[i]->kernel)) {
            refuse(text, size,
                   "the image does not ship '%s:%s', the only kernel left for its stage",
                   stages[i]->module, stages[i]->entry);
            return KPK_ERR_ABSENT;
        }
    return KPK_OK;
}

int gdn_route_line(const struct gdn_route *route, char *text, size_t size)
{
    const struct {
        const char *name, *reason;
    } refusals[] = {
        {"gated_delta_rule_recompute_wu_registers", route->wu_registers},
        {"gated_delta_rule_recompute_wu_hopper", route->wu_hopper},
        {"_tcfuse_x2 by quarters of v", route->x2_quarters},
        {"_tcfuse_x2 by halves of v", route->x2_halves},
        {"_tcfuse_x2", route->tcfuse_x2},
        {"_tma", route->tma},
        {"fused", route->fused},
        {"_tc_vblock", route->tc_vblock},
        {"gated_delta_rule_chunk_fwd_o_persistent", route->fwd_o_persistent},
        {"gated_delta_rule_chunk_fwd_o_hopper", route->fwd_o_hopper},
        {"gated_delta_rule_chunk_fwd_o_mma8", route->mma8},
    };
    size_t used = 0;
    const char *separator = "; not ";

    if (route->wu.entry == NULL || route->wu.entry[0] == '\0')
        return snprintf(text, size, "gdn_prefill_fla: nothing to launch");
    int n = snprintf(text, size, "gdn_prefill_fla: %s -> %s -> %s", route->wu.entry,
                     route->spine.entry, route->fwd_o.entry);
    for (size_t i = 0; n >= 0 && i < sizeof refusals / sizeof *refusals; i++) {
        used += (size_t)n;
        n = 0;
        if (refusals[i].reason == NULL)
            continue;
        n = snprintf(used < size ? text + used : NULL, used < size ? size - used : 0, "%s%s: %s",
                     separator, refusals[i].name, refusals[i].reason);
        separator = ", not ";
    }
    return n < 0 ? n : (int)(used + (size_t)n);
}
