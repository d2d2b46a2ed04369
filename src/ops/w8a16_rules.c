#include "ops/w8a16_rules.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_GRID_Y 65535u

const char *w8a16_refusal_text(enum w8a16_refusal refusal)
{
    switch (refusal) {
    case W8A16_TAKEN:
        return "taken";
    case W8A16_REFUSED_LEVER:
        return "its lever turns it off";
    case W8A16_REFUSED_POLICY:
        return "the row-tier policy is not canonical";
    case W8A16_REFUSED_ROWS:
        return "the number of rows is outside its range";
    case W8A16_REFUSED_COLUMNS:
        return "n is not a multiple of 128";
    case W8A16_REFUSED_K:
        return "k is not a positive multiple of 128";
    case W8A16_REFUSED_PITCH:
        return "a row pitch is too short, or rows of A are not 16-byte aligned";
    case W8A16_REFUSED_ABSENT:
        return "the image does not ship it";
    case W8A16_REFUSED_DRIVER:
        return "the image was not bound to a driver with tensor maps";
    case W8A16_REFUSED_ASKED:
        return "the caller asked for no twins";
    case W8A16_REFUSED_COUNT:
        break;
    }
    return "unknown refusal";
}

/* Costs as measured on an H200, in nanoseconds, roughly. */
const struct w8a16_hopper_tile w8a16_hopper_tiles[W8A16_TWIN_COUNT] = {
    [W8A16_TWIN_16X16] = {.rows = 16, .columns = 16, .cluster = 1, .cost = 170},
    [W8A16_TWIN_16X64] = {.rows = 16, .columns = 64, .cluster = 1, .cost = 290},
    [W8A16_TWIN_16X96] = {.rows = 16, .columns = 96, .cluster = 1, .cost = 430},
    [W8A16_TWIN_16X144] = {.rows = 16, .columns = 144, .cluster = 1, .cost = 640},
    [W8A16_TWIN_32X16] = {.rows = 32, .columns = 16, .cluster = 1, .cost = 185},
    [W8A16_TWIN_32X32] = {.rows = 32, .columns = 32, .cluster = 1, .cost = 220},
    [W8A16_TWIN_32X64] = {.rows = 32, .columns = 64, .cluster = 1, .cost = 350},
    [W8A16_TWIN_32X96] = {.rows = 32, .columns = 96, .cluster = 1, .cost = 560},
    [W8A16_TWIN_32X144] = {.rows = 32, .columns = 144, .cluster = 1, .cost = 760},
    [W8A16_TWIN_48X16] = {.rows = 48, .columns = 16, .cluster = 1, .cost = 200},
    [W8A16_TWIN_64X64] = {.rows = 64, .columns = 64, .cluster = 1, .cost = 400},
    [W8A16_TWIN_64X96] = {.rows = 64, .columns = 96, .cluster = 1, .cost = 600},
    [W8A16_TWIN_64X136] = {.rows = 64, .columns = 136, .cluster = 1, .cost = 870},
    [W8A16_TWIN_128X64] = {.rows = 128, .columns = 64, .cluster = 1, .cost = 620},
    [W8A16_TWIN_128X128] = {.rows = 128, .columns = 128, .cluster = 2, .cost = 1040},
};

static bool whole_blocks(uint32_t k)
{
    return k >= W8A16_K_BLOCK && k % W8A16_K_BLOCK == 0;
}

uint32_t w8a16_m16_smem_bytes(uint32_t k)
{
    return W8A16_M16_COLS * (k + 16);
}

bool w8a16_m32_is_skinny(uint32_t m, uint32_t k)
{
    return m <= W8A16_M16_MAX_ROWS && k <= W8A16_M16_MAX_K;
}

bool w8a16_pipelined_prefers_m32(uint32_t m, uint32_t k, kpk_kernel m32)
{
    return m >= 1 && m <= W8A16_M32_TILE_ROWS && whole_blocks(k) && m32.id != 0;
}

bool w8a16_pipelined_prefers_m64(uint32_t m, uint32_t k, kpk_kernel m64)
{
    return m > W8A16_M32_TILE_ROWS && m <= W8A16_M64_TILE_ROWS && whole_blocks(k) && m64.id != 0;
}

enum w8a16_refusal w8a16_pipe128_refusal(bool no_pipe128, uint32_t m, uint32_t n, uint32_t k,
                                         kpk_kernel pipe128)
{
    if (no_pipe128)
        return W8A16_REFUSED_LEVER;
    if (m < W8A16_PIPE128_MIN_ROWS)
        return W8A16_REFUSED_ROWS;
    if (n == 0 || n % W8A16_PIPE128_TILE != 0)
        return W8A16_REFUSED_COLUMNS;
    if (!whole_blocks(k))
        return W8A16_REFUSED_K;
    return pipe128.id == 0 ? W8A16_REFUSED_ABSENT : W8A16_TAKEN;
}

/* Clusters of a twin that cover the shape. */
static uint64_t clusters(enum w8a16_twin twin, uint32_t m, uint32_t n)
{
    const struct w8a16_hopper_tile *tile = &w8a16_hopper_tiles[twin];

    return (uint64_t)w8a16_tiles(w8a16_tiles(n, tile->columns), tile->cluster) *
           w8a16_tiles(m, tile->rows);
}

enum w8a16_twin w8a16_hopper_twin(const kpk_kernel shipped[W8A16_TWIN_COUNT], uint32_t m,
                                  uint32_t n, uint32_t sm_count)
{
    enum w8a16_twin best = W8A16_TWIN_128X128;
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < W8A16_TWIN_COUNT; i++) {
        const struct w8a16_hopper_tile *tile = &w8a16_hopper_tiles[i];
        uint64_t at_once = sm_count / tile->cluster;
        uint64_t wanted = clusters((enum w8a16_twin)i, m, n);
        uint64_t rounds = at_once == 0 ? 1 : (wanted + at_once - 1) / at_once;
        if (shipped[i].id != 0 && rounds * tile->cost < least) {
            least = rounds * tile->cost;
            best = (enum w8a16_twin)i;
        }
    }
    return best;
}

enum w8a16_refusal w8a16_hopper_refusal(const struct w8a16 *ops, enum w8a16_twin twin)
{
    if (ops->no_twins)
        return W8A16_REFUSED_ASKED;
    if (ops->hopper[twin].id == 0)
        return W8A16_REFUSED_ABSENT;
    return ops->encode == NULL ? W8A16_REFUSED_DRIVER : W8A16_TAKEN;
}

kpk_grid w8a16_hopper_grid(enum w8a16_twin twin, uint32_t m, uint32_t n, uint32_t sm_count)
{
    const uint32_t cluster = w8a16_hopper_tiles[twin].cluster;
    uint64_t wanted = clusters(twin, m, n);
    uint64_t at_once = sm_count / cluster;

    if (at_once > 0 && wanted > at_once)
        wanted = at_once;
    if (wanted > INT32_MAX / cluster)
        wanted = INT32_MAX / cluster;
    return (kpk_grid){(uint32_t)wanted * cluster, 1, 1};
}

unsigned w8a16_rows_entry(uint32_t m)
{
    return m <= 16 ? 0 : m <= 32 ? 1 : 2;
}

enum w8a16_refusal w8a16_rows_refusal(const struct w8a16 *ops, uint32_t m, uint32_t n, uint32_t k,
                                      uint32_t a_row_stride, uint32_t c_row_stride)
{
    if (ops->no_rows)
        return W8A16_REFUSED_LEVER;
    if (ops->policy != W8A16_POLICY_CANONICAL)
        return W8A16_REFUSED_POLICY;
    if (m < 1 || m > W8A16_ROWS_MAX_ROWS)
        return W8A16_REFUSED_ROWS;
    if (n == 0 || n % 128 != 0)
        return W8A16_REFUSED_COLUMNS;
    if (!whole_blocks(k))
        return W8A16_REFUSED_K;
    if (a_row_stride < k || a_row_stride % 8 != 0 || c_row_stride < n)
        return W8A16_REFUSED_PITCH;
    return ops->rows[w8a16_rows_entry(m)].id == 0 ? W8A16_REFUSED_ABSENT : W8A16_TAKEN;
}

enum w8a16_policy w8a16_policy_of(bool canonical_lever, bool row_exact_lever, bool canonical_asked)
{
    if (row_exact_lever)
        return W8A16_POLICY_ROW_EXACT;
    return canonical_lever || canonical_asked ? W8A16_POLICY_CANONICAL : W8A16_POLICY_TILE;
}

/* The checks that the reference file has, in its order and words; true when all pass. */
static bool check_shape(enum w8a16_launcher launcher, const struct w8a16_args *a, char *text,
                        size_t size)
{
    if (launcher == W8A16_M64) {
        if (a->m == 0 || !whole_blocks(a->k)) {
            snprintf(text, size,
                     "w8a16_gemm_pipelined_m64: m=%" PRIu32 " must be positive and K=%" PRIu32
                     " a positive multiple of %u",
                     a->m, a->k, W8A16_K_BLOCK);
            return false;
        }
        if (a->a_row_stride < a->k || a->c_row_stride < a->n || a->a_row_stride % 8 != 0) {
            snprintf(text, size,
                     "w8a16_gemm_pipelined_m64: row pitches (a=%" PRIu32 ", c=%" PRIu32
                     ") must cover k=%" PRIu32 " / n=%" PRIu32 ", and a must keep rows 16B-aligned",
                     a->a_row_stride, a->c_row_stride, a->k, a->n);
            return false;
        }
        return true;
    }
    const char *name = launcher == W8A16_M32 ? "w8a16_gemm_pipelined_m32" : "w8a16_gemm_pipelined";

    if (a->m == 0) {
        snprintf(text, size, "%s: m=0 has no rows to compute", name);
        return false;
    }
    if (!whole_blocks(a->k)) {
        snprintf(text, size,
                 "%s: K=%" PRIu32
                 " must be a positive multiple of %u (one FP8 scale block per K-step)",
                 name, a->k, W8A16_M32_K_BLOCK);
        return false;
    }
    if (a->a_row_stride < a->k || a->c_row_stride < a->n) {
        snprintf(text, size,
                 "%s: row pitches (a=%" PRIu32 ", c=%" PRIu32
                 ") must cover the used extents (k=%" PRIu32 ", n=%" PRIu32 ")",
                 name, a->a_row_stride, a->c_row_stride, a->k, a->n);
        return false;
    }
    if (a->a_row_stride % 8 != 0) {
        snprintf(text, size,
                 "%s: a_row_stride=%" PRIu32 " must keep rows 16B-aligned (cp.async A tile)", name,
                 a->a_row_stride);
        return false;
    }
    return true;
}

kpk_status w8a16_check(enum w8a16_launcher launcher, const struct w8a16_args *args, char *text,
                       size_t size)
{
    static const struct {
        const char *name;
        uint32_t tile_rows;
    } launchers[] = {
        [W8A16_PIPELINED] = {"w8a16_gemm_pipelined", W8A16_TILE_ROWS},
        [W8A16_M32] = {"w8a16_gemm_pipelined_m32", W8A16_M32_TILE_ROWS},
        [W8A16_M64] = {"w8a16_gemm_pipelined_m64", W8A16_M64_TILE_ROWS},
        [W8A16_ROWS] = {"w8a16_tc_rows", W8A16_ROWS_MAX_ROWS},
    };
    const struct {
        const char *name;
        uint64_t address, alignment;
    } pointers[] = {
        {"input", args->input, 16},
        {"weight", args->weight, 16},
        {"block_scale", args->block_scale, 4},
        {"output", args->output, 4},
    };
    const char *name = launchers[launcher].name;

    if (launcher != W8A16_ROWS && !check_shape(launcher, args, text, size))
        return KPK_ERR_UNSUPPORTED;
    if (args->n == 0) {
        snprintf(text, size, "%s: n=0 has no columns to compute", name);
        return KPK_ERR_UNSUPPORTED;
    }
    if ((args->m - 1) / launchers[launcher].tile_rows >= MAX_GRID_Y) {
        snprintf(text, size, "%s: m=%" PRIu32 " is more than the grid holds (%" PRIu64 ")", name,
                 args->m, (uint64_t)MAX_GRID_Y * launchers[launcher].tile_rows);
        return KPK_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        if (pointers[i].address == 0 || pointers[i].address % pointers[i].alignment != 0) {
            snprintf(text, size,
                     "%s: %s=0x%" PRIx64 " must be an address aligned to %" PRIu64 " bytes", name,
                     pointers[i].name, pointers[i].address, pointers[i].alignment);
            return KPK_ERR_UNSUPPORTED;
        }
    }
    if (size > 0)
        text[0] = '\0';
    return KPK_OK;
}

uint64_t w8a16_check_weights(const uint8_t *weight, uint64_t n, uint64_t k, uint64_t *out_first)
{
    uint64_t count = 0;

    *out_first = 0;
    for (uint64_t i = 0; i < n * k; i++) {
        if ((weight[i] & 0x7f) == 0x7f && count++ == 0)
            *out_first = i;
    }
    return count;
}
