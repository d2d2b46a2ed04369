// gdn_entry.cuh: how the chunked gated delta rule's kernels begin: their argument lists, and what a block of each grid
// works on.
#ifndef GDN_ENTRY_CUH
#define GDN_ENTRY_CUH

#include "gdn.cuh"

// ---- Argument lists, one for each stage ----

#define GDN_WU_PARAMETERS                                                                          \
    const bf16 *key, const bf16 *value, const float *gate, const float *beta, bf16 *w_out,         \
        bf16 *u_out, float *gc_out, u32 batch, u32 seq_len, u32 num_chunks, u32 nk, u32 nv,        \
        u32 k_dim, u32 v_dim, u32 qk_stride, u32 v_stride, u32 gb_stride, const int *cu_seqlens,   \
        const int *cu_chunks, u32 is_varlen
// Of every spine but _tma.
#define GDN_SPINE_PARAMETERS                                                                       \
    void *h_state, const bf16 *w, const bf16 *u, const bf16 *key, const float *gate,               \
        const float *gc, bf16 *s_out, bf16 *uc_out, u32 batch, u32 seq_len, u32 num_chunks,        \
        u32 nk, u32 nv, u32 k_dim, u32 v_dim, u32 qk_stride, u32 gb_stride, u32 h_state_is_table,  \
        const int *cu_seqlens, const int *cu_chunks, u32 is_varlen
#define GDN_FWD_O_PARAMETERS                                                                       \
    const bf16 *query, const bf16 *key, const float *gate, const float *gc, const bf16 *s_in,      \
        const bf16 *uc_in, bf16 *output, u32 batch, u32 seq_len, u32 num_chunks, u32 nk, u32 nv,   \
        u32 k_dim, u32 v_dim, u32 qk_stride, u32 gb_stride, const int *cu_seqlens,                 \
        const int *cu_chunks, u32 is_varlen

// ---- Kernels 1 and 3: a grid of (chunk, value head, sequence) ----

struct gdn_chunk {
    u32 c;
    gdn_sequence sequence;

    DEVICE bool exists() const
    {
        return c < sequence.chunks;
    }
    DEVICE int rows() const // tokens
    {
        return gdn_rows(sequence, c);
    }
    DEVICE u64 token() const // its first row
    {
        return sequence.token + (u64)c * CHUNK;
    }
    DEVICE u64 base(u32 vh, u32 nv) const // its block of the scratch, for one head
    {
        return (sequence.chunk + c) * nv + vh;
    }
};

DEVICE gdn_chunk gdn_my_chunk(u32 c, u32 seq_len, u32 num_chunks, const int *cu_seqlens, u32 is_varlen)
{
    return {c, gdn_locate(blockIdx.z, seq_len, num_chunks, cu_seqlens, is_varlen)};
}

#endif
