// gdn_spine_quarters.cu: the twin of _tcfuse_x2 that takes a quarter of v, with its bits. Products have tokens, then k, on
// wgmma's M side and v on its N side; W and K are operands from registers, the limbs of S and d from shared memory:
//   ws = W S (S's high limb, then its low one);  uc = U - ws;  d = decay uc;  S = decay_0 S + K^T d
// One warpgroup projects (the first line), two keep 64 of S's rows each; while one side's products run, the other fetches
// what its next ones need. One warp asks the copy engine for W, U, K and gc, STAGES chunks ahead, another has it take S
// and uc out.
#include "gdn_spine_hopper.cuh"

constexpr int PROJECTING = 128, KEEPING = 256;     // threads: a warpgroup, and two
constexpr int THREADS = PROJECTING + KEEPING + 64; // and the two warps that copy
constexpr int COLUMNS = 32;                        // of v
constexpr int BLOCKS = V_DIM / COLUMNS;            // a head's; neighbours in the grid
constexpr u32 HALF = CHUNK * 128;                  // bytes of 64 rows of 64 columns
constexpr u32 NARROW = CHUNK * 64;                 // of 64 rows of 32
constexpr u32 STATE_TILE = K_DIM * 64;             // of S's 32 columns
constexpr u32 GATES = CHUNK * 4;                   // bytes of a chunk's gc

// Tiles lie as the copy engine's swizzle puts them: rows of 128 bytes (W and K: columns 0..63, then 64..127), or of 64.
struct gdn_quarter_smem {
    struct stage {
        u8 w[2 * HALF], k[2 * HALF], u[NARROW];
    };

    stage staged[STAGES];
    u8 s_high[2][STATE_TILE]; // of even and odd chunks: what S_out takes
    u8 s_low[STATE_TILE];
    u8 d_high[NARROW], d_low[NARROW], uc[2][NARROW];
    float front_gc[STAGES][CHUNK], back_gc[STAGES][CHUNK];
    // Of a stage: W, U and gc, and K and gc, are here; are no longer needed.
    u64 front_full[STAGES], back_full[STAGES], front_empty[STAGES], back_empty[STAGES];
    // Of a chunk: the limbs of S and of d are in their places; uc is, of even and odd chunks. d's low limb also waits for
    // the copies of the chunk before out of theirs: behind it the places of the other parity are free.
    u64 s_high_full, s_low_full, d_high_full, d_low_full, uc_full[2];
    gdn_pair_halves halves;
};

static_assert(sizeof(gdn_quarter_smem) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32,
              "the description declares other bytes than gdn_quarter_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 == THREADS, "three warpgroups and two warps");
static_assert(sizeof(gdn_quarter_smem::stage) % 1024 == 0 && HALF % 1024 == 0 && NARROW % 1024 == 0,
              "every tile begins on an atom of the swizzle");

extern __shared__ __align__(1024) u8 gdn_smem[];

// U, d, uc, S; half of W or K is a gdn_wide_tile.
struct gdn_narrow_tile {
    static DEVICE u32 at(int row, int chunk)
    {
        return swizzled<64>((u32)row, (u32)chunk);
    }
};

// A warp's writes to shared memory are in their places, for wgmma and the copy engine too.
DEVICE void gdn_quarter_publish(const u64 &barrier, int lane)
{
    fence_async_shared();
    __syncwarp();
    if (lane == 0)
        mbarrier_arrive(smem_address(&barrier));
}

// ---- The warps that copy --------------------------------------------------------------------------------

// Both halves of W or K.
DEVICE void gdn_quarter_fetch(const u8 *tile, const tensor_map &map, u32 column, u32 row, u32 barrier)
{
    tma_load_2d(smem_address(tile), &map, column, row, barrier);
    tma_load_2d(smem_address(tile + HALF), &map, column + 64, row, barrier);
}

// Only whole chunks: what stands behind the last row belongs to others or to nobody.
DEVICE void gdn_quarter_copy_in(gdn_quarter_smem &smem, const gdn_head_part &head, const tensor_map &w_map,
                                const tensor_map &u_map, const tensor_map &k_map, const tensor_map &gc_map, u32 kh,
                                int lane)
{
    if (lane == 0) {
        tensor_map_prefetch(&w_map);
        tensor_map_prefetch(&u_map);
        tensor_map_prefetch(&k_map);
        tensor_map_prefetch(&gc_map);
    }
    grid_wait();
#pragma unroll 1
    for (u32 c = 0; c < head.sequence.length / CHUNK; ++c) {
        const u32 slot = c % STAGES, parity = c / STAGES & 1;
        gdn_quarter_smem::stage &stage = smem.staged[slot];
        const u32 block = (u32)head.block(c), front = smem_address(&smem.front_full[slot]),
                  back = smem_address(&smem.back_full[slot]);
        gdn_wait(smem.front_empty[slot], parity ^ 1);
        if (lane == 0) {
            mbarrier_arrive_expect(front, 2 * HALF + NARROW + GATES);
            gdn_quarter_fetch(stage.w, w_map, 0, block * CHUNK, front);
            tma_load_2d(smem_address(stage.u), &u_map, head.first, block * CHUNK, front);
            tma_load_2d(smem_address(smem.front_gc[slot]), &gc_map, 0, block, front);
        }
        gdn_wait(smem.back_empty[slot], parity ^ 1);
        if (lane == 0) {
            mbarrier_arrive_expect(back, 2 * HALF + GATES);
            gdn_quarter_fetch(stage.k, k_map, kh * K_DIM, (u32)head.sequence.token + c * CHUNK, back);
            tma_load_2d(smem_address(smem.back_gc[slot]), &gc_map, 0, block, back);
        }
    }
}

DEVICE void gdn_quarter_copy_out(gdn_quarter_smem &smem, const gdn_head_part &head, const tensor_map &s_map,
                                 const tensor_map &uc_map, int lane)
{
    grid_wait();
#pragma unroll 1
    for (u32 c = 0; c < head.sequence.chunks; ++c) {
        const u64 base = head.block(c);
        gdn_wait(smem.s_high_full, c & 1);
        if (lane == 0) {
            bulk_wait_read();
            mbarrier_arrive(smem_address(&smem.d_low_full));
            tma_store_2d(&s_map, head.first, (u32)(base * K_DIM), smem_address(smem.s_high[c & 1]));
            bulk_commit();
        }
        if (c + 2 >= head.sequence.chunks)
            grid_launch_dependents();
        gdn_wait(smem.uc_full[c & 1], c >> 1 & 1);
        if (lane == 0 && gdn_rows(head.sequence, c) == CHUNK)
            tma_store_2d(&uc_map, head.first, (u32)(base * CHUNK), smem_address(smem.uc[c & 1]));
        if (lane == 0)
            bulk_commit();
    }
    if (lane == 0)
        bulk_wait();
}

// ---- The computing warpgroups ------------------------------------------------------------------------

// acc += A B for windows of 16 of the sum, in ascending order, as one group; b: the windows' rows of 32 columns.
template <int WINDOWS>
DEVICE void gdn_quarter_product(float (&acc)[COLUMNS / 8][4], const u32 (&a)[WINDOWS][4], u64 b)
{
    wgmma_fence();
#pragma unroll
    for (int window = 0; window < WINDOWS; ++window)
        wgmma_m64n32k16<1>(reinterpret_cast<float (&)[16]>(acc), a[window], b + window * (1024 >> 4), 1);
    wgmma_commit();
}

// Where a lane's part of a warp's 16 rows, from `row`, lies for ldmatrix and stmatrix; the next 16 columns are an
// exclusive or of 32 away.
template <class TILE> DEVICE u32 gdn_quarter_at(int row, int lane)
{
    return TILE::at(row + (lane & 15), lane >> 4);
}

// A warp's 16 rows of 32 columns in bf16 to its lanes' places.
DEVICE void gdn_quarter_put(u32 at, const u32 (&x)[COLUMNS / 16][4])
{
#pragma unroll
    for (int pair = 0; pair < COLUMNS / 16; ++pair)
        stmatrix_x4(at ^ 32 * pair, x[pair]);
}

DEVICE void gdn_quarter_high(u32 (&high)[COLUMNS / 16][4], const float (&x)[COLUMNS / 8][4])
{
#pragma unroll
    for (int pair = 0; pair < COLUMNS / 16; ++pair)
        gdn_high_limb(high[pair], x[2 * pair], x[2 * pair + 1]);
}

DEVICE void gdn_quarter_low(u32 (&low)[COLUMNS / 16][4], const u32 (&high)[COLUMNS / 16][4],
                            const float (&x)[COLUMNS / 8][4], const gdn_pair_halves &halves)
{
#pragma unroll
    for (int pair = 0; pair < COLUMNS / 16; ++pair)
        halves.low_limb(low[pair], high[pair], x[2 * pair], x[2 * pair + 1]);
}

// Both limbs to their places, each told of at its barrier. The low one is made while the high one's fence is waited for.
DEVICE void gdn_quarter_put_limbs(u32 high_at, u32 low_at, const float (&x)[COLUMNS / 8][4], const u64 &high_full,
                                  const u64 &low_full, const gdn_pair_halves &in_memory, int lane)
{
    u32 high[COLUMNS / 16][4], low[COLUMNS / 16][4];
    gdn_quarter_high(high, x);
    gdn_quarter_put(high_at, high);
    const gdn_pair_halves halves(&in_memory);
    gdn_quarter_publish(high_full, lane);
    gdn_quarter_low(low, high, x, halves);
    gdn_quarter_put(low_at, low);
    gdn_quarter_publish(low_full, lane);
}

// uc's rows of a warp that a chunk of fewer rows has.
DEVICE void gdn_quarter_store_tail(bf16 *to, const u8 *tile, int rows, int row, int lane)
{
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int at = row + 8 * i + (lane >> 2);
        if (at < rows)
            *(uint4 *)(to + at * V_DIM + (lane & 3) * 8) =
                *(const uint4 *)(tile + gdn_narrow_tile::at(at, lane & 3));
    }
}

// What a projecting warp needs of a chunk: rows of W and U, and each lane's two rows of gc and the last one.
struct gdn_quarter_front {
    u32 w[K_DIM / 16][4], u[COLUMNS / 16][4]; // [16 i][128 k], [16 i][32 v]
    float at[2], last;

    DEVICE void load(u32 w_at, u32 u_at, const float *gc, int row)
    {
#pragma unroll
        for (int window = 0; window < K_DIM / 16; ++window)
            ldmatrix_x4(w[window], (w_at ^ 32 * (window & 3)) + (window >> 2) * HALF);
#pragma unroll
        for (int pair = 0; pair < COLUMNS / 16; ++pair)
            ldmatrix_x4(u[pair], u_at ^ 32 * pair);
        at[0] = gc[row];
        at[1] = gc[row + 8];
        last = gc[CHUNK - 1];
    }

    // Of a chunk of fewer rows, past the copy engine; zeros past the last one.
    DEVICE void load_tail(const bf16 *w_rows, const bf16 *u_rows, const float *gc, int rows, int row, int lane)
    {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            const int i = row + 8 * (word & 1), column = 2 * (lane & 3) + 8 * (word >> 1);
#pragma unroll
            for (int window = 0; window < K_DIM / 16; ++window)
                w[window][word] = i < rows ? *(const u32 *)(w_rows + i * K_DIM + 16 * window + column) : 0;
#pragma unroll
            for (int pair = 0; pair < COLUMNS / 16; ++pair)
                u[pair][word] = i < rows ? *(const u32 *)(u_rows + i * V_DIM + 16 * pair + column) : 0;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
            at[half] = row + 8 * half < rows ? gc[row + 8 * half] : 0.0f;
        last = gc[rows - 1];
    }
};

DEVICE void gdn_quarter_project(gdn_quarter_smem &smem, const gdn_head_part &head, const bf16 *w_in,
                                const bf16 *u_in, const float *gc, bf16 *uc_out, int thread)
{
    const int lane = thread & 31, row = thread >> 5 << 4, mine = row + (lane >> 2);
    const gdn_sequence &sequence = head.sequence;
    const u64 s_high = wgmma_operand_n64(smem_address(smem.s_high)), s_low = wgmma_operand_n64(smem_address(smem.s_low));
    const u32 wide = gdn_quarter_at<gdn_wide_tile>(row, lane), narrow = gdn_quarter_at<gdn_narrow_tile>(row, lane);
    gdn_quarter_front front;
    float x[COLUMNS / 8][4]; // the f32 uc: [16 i][32 v] of a warp
    u32 slot = 0, parity = 0;
    grid_wait();
    // Turn c: uc of chunk c - 1 leaves while what chunk c needs comes; then chunk c's products.
#pragma unroll 1
    for (u32 c = 0; c <= sequence.chunks; ++c) {
        const int rows = c < sequence.chunks ? gdn_rows(sequence, c) : 0;
        const u64 base = head.block(c);
        if (rows == CHUNK) {
            gdn_wait(smem.front_full[slot], parity);
            front.load(smem_address(smem.staged[slot].w) + wide, smem_address(smem.staged[slot].u) + narrow,
                       smem.front_gc[slot], mine);
        } else if (rows > 0) {
            front.load_tail(w_in + base * (CHUNK * K_DIM), u_in + base * (CHUNK * V_DIM), gc + base * CHUNK, rows, mine,
                            lane);
        }
        if (c > 0) {
            const u32 last = c - 1;
            u32 uc[COLUMNS / 16][4];
            gdn_quarter_high(uc, x);
            gdn_quarter_put(smem_address(smem.uc[last & 1]) + narrow, uc);
            gdn_quarter_publish(smem.uc_full[last & 1], lane);
            if (gdn_rows(sequence, last) < CHUNK)
                gdn_quarter_store_tail(uc_out + head.block(last) * (CHUNK * V_DIM), smem.uc[last & 1],
                                       gdn_rows(sequence, last), row, lane);
        }
        if (rows == 0)
            break;
        if (rows == CHUNK)
            gdn_warp_release(smem.front_empty[slot], lane);
        float ws[COLUMNS / 8][4] = {}, d[COLUMNS / 8][4], decay[2]; // decay: 0 past the last row
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            decay[half] = expf(front.last - front.at[half]);
            if (mine + 8 * half >= rows)
                decay[half] = 0.0f;
        }

        gdn_wait(smem.s_high_full, c & 1);
        gdn_quarter_product(ws, front.w, s_high + (c & 1) * (STATE_TILE >> 4));
        gdn_wait(smem.s_low_full, c & 1);
        gdn_quarter_product(ws, front.w, s_low);
        wgmma_wait<0>();
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 u = front.u[j >> 1][2 * (j & 1) + half];
                x[j][2 * half] = f32_from_bf16_low(u) - ws[j][2 * half];
                x[j][2 * half + 1] = f32_from_bf16_high(u) - ws[j][2 * half + 1];
                d[j][2 * half] = decay[half] * x[j][2 * half];
                d[j][2 * half + 1] = decay[half] * x[j][2 * half + 1];
            }
        gdn_quarter_put_limbs(smem_address(smem.d_high) + narrow, smem_address(smem.d_low) + narrow, d,
                              smem.d_high_full, smem.d_low_full, smem.halves, lane);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        parity ^= slot == 0;
    }
}

// What a keeping warp needs of a chunk: 16 of K's columns as rows, and gc's last.
struct gdn_quarter_back {
    u32 key[CHUNK / 16][4]; // [16 k][64 i]
    float last;

    DEVICE void load(u32 key_at, const float *gc)
    {
#pragma unroll
        for (int window = 0; window < CHUNK / 16; ++window)
            ldmatrix_x4_transposed(key[window], key_at + window * 2048);
        last = gc[CHUNK - 1];
    }

    // As gdn_quarter_front's; key_columns: from the lane's first one.
    DEVICE void load_tail(const bf16 *key_columns, u64 stride, const float *gc, int rows, int lane)
    {
#pragma unroll
        for (int window = 0; window < CHUNK / 16; ++window)
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                const int i = 16 * window + 2 * (lane & 3) + 8 * (word >> 1), column = 8 * (word & 1);
                const u32 even = i < rows ? key_columns[i * stride + column] : 0;
                const u32 odd = i + 1 < rows ? key_columns[(i + 1) * stride + column] : 0;
                key[window][word] = even | odd << 16;
            }
        last = gc[rows - 1];
    }
};

DEVICE void gdn_quarter_keep(gdn_quarter_smem &smem, const gdn_head_part &head, float *state, const bf16 *key,
                             u64 key_stride, const float *gc, int thread)
{
    const int lane = thread & 31, half = thread >> 7, column = (thread >> 5 & 3) << 4, row = half * 64 + column;
    const gdn_sequence &sequence = head.sequence;
    const u64 d_high = wgmma_operand_n64(smem_address(smem.d_high)), d_low = wgmma_operand_n64(smem_address(smem.d_low));
    const u32 wide = half * HALF + gdn_trans_at<gdn_wide_tile>(0, column, lane),
              narrow = gdn_quarter_at<gdn_narrow_tile>(row, lane);
    float s[COLUMNS / 8][4]; // [16 k][32 v] of a warp
    state += (row + (lane >> 2)) * V_DIM + 2 * (lane & 3);
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            s[j][e] = state[(e >> 1) * 8 * V_DIM + 8 * j + (e & 1)];
    grid_wait();
    gdn_quarter_put_limbs(smem_address(smem.s_high[0]) + narrow, smem_address(smem.s_low) + narrow, s,
                          smem.s_high_full, smem.s_low_full, smem.halves, lane);
    u32 slot = 0, parity = 0;
#pragma unroll 1
    for (u32 c = 0; c < sequence.chunks; ++c) {
        const int rows = gdn_rows(sequence, c);
        gdn_quarter_back back;
        if (rows == CHUNK) {
            gdn_wait(smem.back_full[slot], parity);
            back.load(smem_address(smem.staged[slot].k) + wide, smem.back_gc[slot]);
            gdn_warp_release(smem.back_empty[slot], lane);
        } else {
            back.load_tail(key + (u64)c * CHUNK * key_stride + row + (lane >> 2), key_stride,
                           gc + head.block(c) * CHUNK, rows, lane);
        }
        const float first = expf(back.last);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[j][e] = s[j][e] * first;

        gdn_wait(smem.d_high_full, c & 1);
        gdn_quarter_product(s, back.key, d_high);
        gdn_wait(smem.d_low_full, c & 1);
        gdn_quarter_product(s, back.key, d_low);
        wgmma_wait<0>();
        if (c + 1 < sequence.chunks)
            gdn_quarter_put_limbs(smem_address(smem.s_high[(c + 1) & 1]) + narrow, smem_address(smem.s_low) + narrow, s,
                                  smem.s_high_full, smem.s_low_full, smem.halves, lane);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        parity ^= slot == 0;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            state[(e >> 1) * 8 * V_DIM + 8 * j + (e & 1)] = s[j][e];
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gated_delta_rule_chunk_delta_h_tcfuse_x2_v32(
        void *h_state, const __grid_constant__ tensor_map w_map, const __grid_constant__ tensor_map u_map,
        const __grid_constant__ tensor_map k_map, const __grid_constant__ tensor_map gc_map,
        const __grid_constant__ tensor_map s_map, const __grid_constant__ tensor_map uc_map, const bf16 *w, const bf16 *u, const bf16 *key,
        const float *gc, bf16 *uc_out,
        u32 /*batch*/, u32 seq_len, u32 num_chunks, u32 nk, u32 nv, u32 qk_stride, u32 h_state_is_table,
        const int *cu_seqlens, const int * /*cu_chunks*/, u32 is_varlen)
{
    gdn_quarter_smem &smem = *(gdn_quarter_smem *)gdn_smem;
    const u32 vh = blockIdx.x / BLOCKS, b = blockIdx.y, kh = vh / (nv / nk);
    const gdn_sequence sequence = gdn_locate(b, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (sequence.length == 0)
        return;
    const int thread = (int)threadIdx.x;
    const gdn_head_part head = {sequence, nv, vh, blockIdx.x % BLOCKS * COLUMNS};
    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(smem_address(&smem.front_full[i]), 1);
            mbarrier_init(smem_address(&smem.back_full[i]), 1);
            mbarrier_init(smem_address(&smem.front_empty[i]), PROJECTING / 32);
            mbarrier_init(smem_address(&smem.back_empty[i]), KEEPING / 32);
        }
        mbarrier_init(smem_address(&smem.s_high_full), KEEPING / 32);
        mbarrier_init(smem_address(&smem.s_low_full), KEEPING / 32);
        mbarrier_init(smem_address(&smem.d_high_full), PROJECTING / 32);
        mbarrier_init(smem_address(&smem.d_low_full), PROJECTING / 32 + 1);
        mbarrier_init(smem_address(&smem.uc_full[0]), PROJECTING / 32);
        mbarrier_init(smem_address(&smem.uc_full[1]), PROJECTING / 32);
        smem.halves.set();
        fence_mbarrier_init();
    }
    __syncthreads();
    const int group = __shfl_sync(~0u, thread / 128, 0); // uniform, and known to be: else products wait for one another
    if (group < PROJECTING / 128)
        gdn_quarter_project(smem, head, w, u + head.first, gc, uc_out + head.first, thread);
    else if (group < (PROJECTING + KEEPING) / 128)
        gdn_quarter_keep(smem, head, gdn_state(h_state, h_state_is_table, b, vh, nv) + head.first,
                         key + sequence.token * qk_stride + kh * K_DIM, qk_stride, gc, thread - PROJECTING);
    else if (thread < THREADS - 32)
        gdn_quarter_copy_in(smem, head, w_map, u_map, k_map, gc_map, kh, thread & 31);
    else
        gdn_quarter_copy_out(smem, head, s_map, uc_map, thread & 31);
}
