// PTX, one instruction per function; no other file holds inline assembly.
#ifndef KERNELS_COMMON_PTX_CUH
#define KERNELS_COMMON_PTX_CUH

#include "types.cuh"

// ---- Shared-memory addresses ----------------------------------------------------------------------

DEVICE u32 smem_address(const void *pointer)
{
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// Two bytes, `offset` after the address.
template <u32 offset> DEVICE u32 shared_load_u16(u32 smem)
{
    u16 value;
    asm volatile("ld.shared.u16 %0, [%1 + %2];" : "=h"(value) : "r"(smem), "n"(offset) : "memory");
    return value;
}

// Eight bytes.
DEVICE void shared_load_u32x2(u32 (&r)[2], u32 smem)
{
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(smem) : "memory");
}

// Sixteen bytes.
DEVICE void shared_load_u32x4(u32 (&r)[4], u32 smem)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
}

DEVICE void shared_store_u32x4(u32 smem, const u32 (&r)[4])
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Eight bytes, after the volatile accesses and the products before.
DEVICE void shared_load_volatile_u32x2(u32 (&r)[2], u32 smem)
{
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(smem) : "memory");
}

// The same value, of which the compiler knows nothing: what is computed from it stays where it stands in the loop.
DEVICE u32 opaque(u32 value)
{
    asm volatile("" : "+r"(value));
    return value;
}

// ---- cp.async: global to shared; 16 bytes go past L1 ------------------------------------------------

DEVICE void cp_async_16(u32 smem, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem), "l"(global) : "memory");
}

// 4 bytes, through L1.
DEVICE void cp_async_4(u32 smem, const void *global)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(smem), "l"(global) : "memory");
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

// The reverse of ldmatrix_x4.
DEVICE void stmatrix_x4(u32 smem, const u32 (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// The reverse of ldmatrix_x4_transposed.
DEVICE void stmatrix_x4_transposed(u32 smem, const u32 (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
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

// Two E4M3 codes, or the upper two of four; exact, and NaN for a NaN code.
DEVICE u32 f16x2_from_e4m3(u32 codes)
{
    u32 pair;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %1;\n"
        "cvt.rn.f16x2.e4m3x2 %0, low;\n"
        "}"
        : "=r"(pair)
        : "r"(codes));
    return pair;
}

DEVICE u32 f16x2_from_e4m3_upper(u32 codes)
{
    u32 pair;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %1;\n"
        "cvt.rn.f16x2.e4m3x2 %0, high;\n"
        "}"
        : "=r"(pair)
        : "r"(codes));
    return pair;
}

DEVICE u32 f16x2_add(u32 a, u32 b)
{
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

DEVICE u32 bf16x2_from_f16x2(u32 pair)
{
    float low, high;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n"
        "}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
    return bf16x2_from_f32(low, high);
}

// Four codes to two pairs, in order.
DEVICE void bf16x2_from_e4m3(u32 &low, u32 &high, u32 codes)
{
    low = bf16x2_from_f16x2(f16x2_from_e4m3(codes));
    high = bf16x2_from_f16x2(f16x2_from_e4m3_upper(codes));
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

DEVICE void tensor_map_prefetch(const tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Starts the copy of the map's box at (column, row) to shared memory, 128-byte aligned; its bytes
// count at `barrier`.
DEVICE void tma_load_2d(u32 smem, const tensor_map *map, u32 column, u32 row, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(smem),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

// The same to this place in the shared memory of every block of the cluster whose bit is set in `blocks`; the
// bytes count at the barrier in the same place of each.
DEVICE void tma_load_2d_multicast(u32 smem, const tensor_map *map, u32 column, u32 row, u32 barrier, u16 blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(smem),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
                 : "memory");
}

// Starts the copy of the map's box at (column, row) out of shared memory, 128-byte aligned, past the map's end
// nothing; it belongs to this thread's next bulk group.
DEVICE void tma_store_2d(const tensor_map *map, u32 column, u32 row, u32 smem)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(column), "r"(row), "r"(smem)
                 : "memory");
}

DEVICE void bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's bulk groups have read their shared memory.
DEVICE void bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until they are done.
DEVICE void bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

DEVICE void mbarrier_arrive(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The address in the cluster's shared memory of what lies at `smem` in block `rank`.
DEVICE u32 cluster_address(u32 smem, u32 rank)
{
    u32 address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem), "r"(rank));
    return address;
}

// Arrives at a barrier named by a cluster_address. Orders this block's accesses only: a release for the cluster
// would cost a fence of the whole device, and readers that hand a slot back have nothing to publish.
DEVICE void mbarrier_arrive_cluster(u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// ---- Barriers of threads -----------------------------------------------------------------------------

DEVICE u32 cluster_rank()
{
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

DEVICE void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

DEVICE void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Waits until `threads` threads of the block, whole warps, have come to barrier `id` (0 is __syncthreads').
DEVICE void named_barrier(u32 id, u32 threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The same with a number known to the compiler, for barriers where some threads wait and others only arrive.
template <u32 id, u32 threads> DEVICE void fixed_barrier_wait()
{
    asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

template <u32 id, u32 threads> DEVICE void fixed_barrier_arrive()
{
    asm volatile("bar.arrive %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

// ---- Kernels that overlap on a stream (programmatic dependent launch) ----------------------------------

// Once every block of the grid has come here or has ended, the kernel launched to overlap this one may begin.
DEVICE void grid_launch_dependents()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Waits until the kernel that this one was launched to overlap has ended and what it wrote can be read; nothing when this
// one was launched plainly.
DEVICE void grid_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// ---- wgmma (sm_90a) ----------------------------------------------------------------------------------

// Orders register and shared-memory writes before the wgmma instructions that follow.
DEVICE void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `pending` of the newest groups are unfinished.
template <int pending> DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Takes registers for, or gives them back from, each thread of a warpgroup; the block's sum may not grow.
template <u32 registers> DEVICE void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <u32 registers> DEVICE void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Makes this thread's writes to shared memory visible to wgmma and the copy engine.
DEVICE void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Describes a K-major bf16 operand in 128-byte rows under the copy engine's 128-byte swizzle, eight rows to a
// 1024-byte atom, atoms one after the other:
//   bits 0-13 address / 16    16-29 unused here (1)    32-45 bytes between atoms / 16    62-63 swizzle (1: 128 B)
DEVICE u64 wgmma_operand_k128(u32 smem)
{
    return static_cast<u64>((smem & 0x3ffff) >> 4) | 1ull << 16 | static_cast<u64>(1024 >> 4) << 32 | 1ull << 62;
}

// The same operand with its N in the 128-byte rows: 64 of N to a row and atom, eight of K to an atom, atoms one after
// the other along K, and `bytes` from 64 of N to the next 64 (bits 16-29).
DEVICE u64 wgmma_operand_n128(u32 smem, u32 bytes)
{
    return static_cast<u64>((smem & 0x3ffff) >> 4) | static_cast<u64>(bytes >> 4) << 16 |
           static_cast<u64>(1024 >> 4) << 32 | 1ull << 62;
}

// The same in 64-byte rows under the 64-byte swizzle: 32 of N, eight of K to a 512-byte atom.
DEVICE u64 wgmma_operand_n64(u32 smem)
{
    return static_cast<u64>((smem & 0x3ffff) >> 4) | 1ull << 16 | static_cast<u64>(512 >> 4) << 32 | 2ull << 62;
}

// d[64][n] (+)= a[64][16] * b[n][16]^T by the four warps of a warpgroup; `accumulate` 0 starts from zero. Warp w
// holds rows 16w..16w+15: a as mma_m16n8k16 has it; d[4 * j + i] is element i of that instruction's fragment for
// columns 8j..8j+7. `transposed` 1: b is a wgmma_operand_n128.
template <u32 transposed = 0>
DEVICE void wgmma_m64n32k16(float (&d)[16], const u32 (&a)[4], u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %21, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, p, 1, 1, %22;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),
                   "n"(transposed));
}

DEVICE void wgmma_m64n48k16(float (&d)[24], const u32 (&a)[4], u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %29, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23}, "
                 "{%24, %25, %26, %27}, %28, p, 1, 1, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

DEVICE void wgmma_m64n64k16(float (&d)[32], const u32 (&a)[4], u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

template <u32 transposed = 0>
DEVICE void wgmma_m64n128k16(float (&d)[64], const u32 (&a)[4], u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),
                   "n"(transposed));
}

// The same with a in shared memory: both are wgmma_operand_k128.
DEVICE void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(accumulate));
}

DEVICE void wgmma_m64n96k16(float (&d)[48], u64 a, u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %50, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47}, "
                 "%48, %49, p, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
                 : "l"(a), "l"(b), "r"(accumulate));
}

DEVICE void wgmma_m64n136k16(float (&d)[68], u64 a, u64 b, u32 accumulate)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %70, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n136k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67}, "
                 "%68, %69, p, 1, 1, 0, 0;\n"
                 "}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),
                   "+f"(d[66]), "+f"(d[67])
                 : "l"(a), "l"(b), "r"(accumulate));
}

#endif
