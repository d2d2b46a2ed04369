// gdn_spine.cuh: the scalar state spines. SPLIT neighbouring threads share one value column; thread
// part p of them keeps K_DIM / SPLIT rows of the state, from row p * K_DIM / SPLIT, in f32 registers.
//
// Per element every spine does the same operations in the same order, so those of one SPLIT agree in
// every bit: ws = the split sum of W[i][k] S[k], k ascending; uc = U - ws; d_i = decay_i uc;
// S = decay_0 S, then + d_i K[i][k], i ascending.
#ifndef GDN_SPINE_CUH
#define GDN_SPINE_CUH

#include "gdn.cuh"

// One staged chunk: 128-column bf16 rows without padding, as the bulk copy engine leaves them.
struct gdn_spine_slot {
    bf16 w[CHUNK][K_DIM], k[CHUNK][K_DIM], u[CHUNK][V_DIM];
};

struct gdn_spine_slots {
    gdn_spine_slot slot[2];
    float gc[2][CHUNK];
    float decay[2][CHUNK + 1];
};

struct gdn_spine_slot1 {
    gdn_spine_slot slot;
    float decay[CHUNK + 1];
};

// What one spine block works on.
struct gdn_spine_head {
    gdn_sequence sequence;
    u32 nv, vh;
    float *state;
    const bf16 *w, *u; /* scratch */
    const bf16 *key;   /* the head's columns of the sequence's first token */
    u64 key_stride;
    const float *gc;
    bf16 *s_out, *uc_out;

    DEVICE u64 block(u32 c) const
    {
        return (sequence.chunk + c) * nv + vh;
    }
};

template <int SPLIT> struct gdn_column {
    static constexpr int rows = K_DIM / SPLIT;
    int v, part;

    DEVICE int k0() const
    {
        return part * rows;
    }
};

template <int SPLIT> DEVICE gdn_column<SPLIT> gdn_my_column()
{
    return {(int)threadIdx.x / SPLIT, (int)threadIdx.x % SPLIT};
}

template <int SPLIT>
DEVICE void gdn_read_state(float (&s)[K_DIM / SPLIT], const float *state, gdn_column<SPLIT> at)
{
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; ++k)
        s[k] = state[(at.k0() + k) * V_DIM + at.v];
}

template <int SPLIT>
DEVICE void gdn_write_state(float *state, const float (&s)[K_DIM / SPLIT], gdn_column<SPLIT> at)
{
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; ++k)
        state[(at.k0() + k) * V_DIM + at.v] = s[k];
}

template <int SPLIT>
DEVICE void gdn_write_snapshot(bf16 *s_out, const float (&s)[K_DIM / SPLIT], gdn_column<SPLIT> at)
{
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; ++k)
        s_out[(at.k0() + k) * V_DIM + at.v] = bf16_from_f32(s[k]);
}

// sum + (low, high of each word of eight bf16) * s[0..7], ascending.
DEVICE float gdn_dot8(float sum, uint4 w, const float *s)
{
    sum = sum + f32_from_bf16_low(w.x) * s[0];
    sum = sum + f32_from_bf16_high(w.x) * s[1];
    sum = sum + f32_from_bf16_low(w.y) * s[2];
    sum = sum + f32_from_bf16_high(w.y) * s[3];
    sum = sum + f32_from_bf16_low(w.z) * s[4];
    sum = sum + f32_from_bf16_high(w.z) * s[5];
    sum = sum + f32_from_bf16_low(w.w) * s[6];
    return sum + f32_from_bf16_high(w.w) * s[7];
}

DEVICE void gdn_add8(float *s, float d, uint4 k)
{
    s[0] = s[0] + d * f32_from_bf16_low(k.x);
    s[1] = s[1] + d * f32_from_bf16_high(k.x);
    s[2] = s[2] + d * f32_from_bf16_low(k.y);
    s[3] = s[3] + d * f32_from_bf16_high(k.y);
    s[4] = s[4] + d * f32_from_bf16_low(k.z);
    s[5] = s[5] + d * f32_from_bf16_high(k.z);
    s[6] = s[6] + d * f32_from_bf16_low(k.w);
    s[7] = s[7] + d * f32_from_bf16_high(k.w);
}

// From rows i..i+3 of W and U to d[n] = decay_i * uc; stores uc. Rows past the last give 0 and are
// not stored, whatever their slots hold.
template <int SPLIT>
DEVICE void gdn_delta4(float (&d)[4], const float (&s)[K_DIM / SPLIT], const gdn_spine_slot &slot,
                       const float *decay, bf16 *uc_out, int i, int rows, gdn_column<SPLIT> at)
{
    float p[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; k += 8)
#pragma unroll
        for (int n = 0; n < 4; ++n)
            p[n] = gdn_dot8(p[n], *(const uint4 *)&slot.w[i + n][at.k0() + k], s + k);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        float ws = p[n];
#pragma unroll
        for (int lanes = 1; lanes < SPLIT; lanes *= 2)
            ws = ws + __shfl_xor_sync(0xFFFFFFFFu, ws, lanes);
        const bool valid = i + n < rows;
        const float uc = f32_from_bf16(slot.u[i + n][at.v]) - ws;
        d[n] = valid ? decay[1 + i + n] * uc : 0.0f;
        if (valid && at.part == 0)
            uc_out[(i + n) * V_DIM + at.v] = bf16_from_f32(uc);
    }
}

// One chunk with the new state kept beside the old one.
template <int SPLIT>
DEVICE void gdn_chunk_fused(float (&s)[K_DIM / SPLIT], const gdn_spine_slot &slot,
                            const float *decay, bf16 *uc_out, int rows, gdn_column<SPLIT> at)
{
    float next[K_DIM / SPLIT];
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; ++k)
        next[k] = decay[0] * s[k];
#pragma unroll 1
    for (int i = 0; i < rows; i += 4) {
        float d[4];
        gdn_delta4<SPLIT>(d, s, slot, decay, uc_out, i, rows, at);
#pragma unroll
        for (int n = 0; n < 4; ++n)
            if (i + n < rows) {
#pragma unroll
                for (int k = 0; k < K_DIM / SPLIT; k += 8)
                    gdn_add8(next + k, d[n], *(const uint4 *)&slot.k[i + n][at.k0() + k]);
            }
    }
#pragma unroll
    for (int k = 0; k < K_DIM / SPLIT; ++k)
        s[k] = next[k];
}

// One chunk in two passes: all d first, then the state eight rows at a time. Registers cannot be
// indexed, so d and s turn past their ends: after a whole pass each value is back in its place.
DEVICE void gdn_chunk_two_pass(float (&s)[K_DIM / 2], const gdn_spine_slot &slot,
                               const float *decay, bf16 *uc_out, int rows, gdn_column<2> at)
{
    float d[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i)
        d[i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < CHUNK; i += 4) {
        float d4[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (i < rows)
            gdn_delta4<2>(d4, s, slot, decay, uc_out, i, rows, at);
#pragma unroll
        for (int n = 0; n < CHUNK - 4; ++n)
            d[n] = d[n + 4];
#pragma unroll
        for (int n = 0; n < 4; ++n)
            d[CHUNK - 4 + n] = d4[n];
    }
#pragma unroll 1
    for (int k = 0; k < K_DIM / 2; k += 8) {
        float next[8];
#pragma unroll
        for (int n = 0; n < 8; ++n)
            next[n] = decay[0] * s[n];
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            if (i < rows)
                gdn_add8(next, d[i], *(const uint4 *)&slot.k[i][at.k0() + k]);
#pragma unroll
        for (int n = 0; n < K_DIM / 2 - 8; ++n)
            s[n] = s[n + 8];
#pragma unroll
        for (int n = 0; n < 8; ++n)
            s[K_DIM / 2 - 8 + n] = next[n];
    }
}

// Starts the copies of chunk c: the written rows of W, U and K, and its gc. Block of 256.
DEVICE void gdn_prefetch(gdn_spine_slots &smem, const gdn_spine_head &head, u32 c)
{
    gdn_spine_slot &slot = smem.slot[c & 1];
    const int rows = gdn_rows(head.sequence, c), thread = (int)threadIdx.x;
    const u64 base = head.block(c);
    for (int i = thread; i < rows * 16; i += 256) {
        const int row = i >> 4, column = (i & 15) * 8;
        cp_async_16(smem_address(&slot.w[row][column]), head.w + (base * CHUNK + row) * K_DIM + column);
        cp_async_16(smem_address(&slot.u[row][column]), head.u + (base * CHUNK + row) * V_DIM + column);
        cp_async_16(smem_address(&slot.k[row][column]),
                    head.key + ((u64)c * CHUNK + row) * head.key_stride + column);
    }
    gdn_copy_gc(smem.gc[c & 1], head.gc + base * CHUNK, rows, thread);
}

// The double-buffered spine, arithmetic by CHUNK_STEP.
template <class CHUNK_STEP>
DEVICE void gdn_spine_double(gdn_spine_slots &smem, const gdn_spine_head &head,
                             CHUNK_STEP chunk_step)
{
    const u32 chunks = head.sequence.chunks;
    if (head.sequence.length == 0)
        return;
    const gdn_column<2> at = gdn_my_column<2>();
    float s[K_DIM / 2];
    gdn_prefetch(smem, head, 0);
    cp_async_commit();
    gdn_read_state<2>(s, head.state, at);
#pragma unroll 1
    for (u32 c = 0; c < chunks; ++c) {
        const int rows = gdn_rows(head.sequence, c);
        const u64 base = head.block(c);
        float *decay = smem.decay[c & 1];
        if (c + 1 < chunks)
            gdn_prefetch(smem, head, c + 1);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        gdn_decay_row(decay, smem.gc[c & 1], rows, (int)threadIdx.x);
        gdn_write_snapshot<2>(head.s_out + base * (K_DIM * V_DIM), s, at);
        __syncthreads();
        chunk_step(s, smem.slot[c & 1], decay, head.uc_out + base * (CHUNK * V_DIM), rows, at);
        __syncthreads();
    }
    gdn_write_state<2>(head.state, s, at);
}

// The single-buffered spine: plain loads, K of any alignment.
template <int SPLIT>
DEVICE void gdn_spine_single(gdn_spine_slot1 &smem, const gdn_spine_head &head)
{
    constexpr int threads = V_DIM * SPLIT;
    const int thread = (int)threadIdx.x;
    const gdn_column<SPLIT> at = gdn_my_column<SPLIT>();
    if (head.sequence.length == 0)
        return;
    float s[K_DIM / SPLIT];
    gdn_read_state<SPLIT>(s, head.state, at);
#pragma unroll 1
    for (u32 c = 0; c < head.sequence.chunks; ++c) {
        const int rows = gdn_rows(head.sequence, c);
        const u64 base = head.block(c);
        const bf16 *key = head.key + (u64)c * CHUNK * head.key_stride;
        for (int i = thread; i < rows * 16; i += threads) {
            const int row = i >> 4, column = (i & 15) * 8;
            *(uint4 *)&smem.slot.w[row][column] =
                *(const uint4 *)(head.w + (base * CHUNK + row) * K_DIM + column);
            *(uint4 *)&smem.slot.u[row][column] =
                *(const uint4 *)(head.u + (base * CHUNK + row) * V_DIM + column);
        }
#pragma unroll 4
        for (int i = thread; i < rows * K_DIM; i += threads)
            smem.slot.k[i / K_DIM][i % K_DIM] = key[(i / K_DIM) * head.key_stride + i % K_DIM];
        gdn_decay_row(smem.decay, head.gc + base * CHUNK, rows, thread);
        gdn_write_snapshot<SPLIT>(head.s_out + base * (K_DIM * V_DIM), s, at);
        __syncthreads();
        gdn_chunk_fused<SPLIT>(s, smem.slot, smem.decay, head.uc_out + base * (CHUNK * V_DIM), rows,
                               at);
        __syncthreads();
    }
    gdn_write_state<SPLIT>(head.state, s, at);
}

#endif
