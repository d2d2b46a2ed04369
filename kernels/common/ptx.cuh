// PTX, one instruction per function; no other file holds inline assembly.
#ifndef KERNELS_COMMON_PTX_CUH
#define KERNELS_COMMON_PTX_CUH

#include "types.cuh"

// ---- Shared-memory addresses ----------------------------------------------------------------------

DEVICE u32 smem_address(const void *pointer)
{
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ---- cp.async: global to shared, 16 bytes, past L1 ------------------------------------------------

DEVICE void cp_async_16(u32 smem, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem), "l"(global) : "memory");
}

// Copies `bytes` (0..16) and fills the rest of the 16 with zeros; with 0 the source is not read.
DEVICE void cp_async_16_or_zero(u32 smem, const void *global, u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem), "l"(global), "r"(bytes)
                 : "memory");
}

DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `pending` of this thread's newest groups are unfinished.
template <int pending> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// ---- ldmatrix: 8x8 tiles of 16-bit elements; lane l names row l % 8 of tile l / 8 -----------------

DEVICE void ldmatrix_x2(u32 (&r)[2], u32 smem)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(smem)
                 : "memory");
}

DEVICE void ldmatrix_x4(u32 (&r)[4], u32 smem)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
}

DEVICE void ldmatrix_x4_transposed(u32 (&r)[4], u32 smem)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
}

// ---- MMA ------------------------------------------------------------------------------------------

// d[16][8] += a[16][16] * b[8][16]^T, bf16 in, f32 out. Lane l, with g = l / 4 and t = l % 4, holds
//   a[0]: row g,   k 2t, 2t+1      a[1]: row g+8, the same k     (lower half first)
//   a[2]: row g,   k 2t+8, 2t+9    a[3]: row g+8, the same k
//   b[0]: row g,   k 2t, 2t+1      b[1]: row g,   k 2t+8, 2t+9   (b's rows are d's columns)
//   d[0], d[1]: row g, columns 2t, 2t+1     d[2], d[3]: row g+8, the same columns
DEVICE void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- bf16 -----------------------------------------------------------------------------------------

// Round to nearest even; `low` goes to the lower half.
DEVICE u32 bf16x2_from_f32(float low, float high)
{
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE u16 bf16_from_f32(float value)
{
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two products, each rounded to nearest even; subnormals are kept.
DEVICE u32 bf16x2_mul(u32 a, u32 b)
{
    u32 product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// ---- Barriers in shared memory and the bulk tensor copy ---------------------------------------------

DEVICE void mbarrier_init(u32 barrier, u32 arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine.
DEVICE void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives once and adds `bytes` to what the current phase waits for.
DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// True when the phase of this parity has completed; may wait a while first.
DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity)
{
    u32 done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

// A CUtensorMap: 128 opaque bytes, passed by value as a __grid_constant__ parameter.
struct alignas(64) tensor_map {
    u8 bytes[128];
};

// Starts the copy of the map's box at (column, row) to shared memory, 128-byte aligned; its bytes
// count at `barrier`.
DEVICE void tma_load_2d(u32 smem, const tensor_map *map, u32 column, u32 row, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(smem),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

#endif
