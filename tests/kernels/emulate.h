/* emulate.h: runs a kernel's source on the host, one block at a time, with every thread a fiber.
 *
 * Included before the kernel. It stands in for kernels/common/ptx.cuh and for what nvcc predefines,
 * so that the kernel's own text is compiled by the host's compiler. Collectives wait for their
 * whole warp or block; memory that nothing wrote holds what the test put there. Warps run in
 * ascending order, each as far ahead of the others as it can get, with asynchronous copies that
 * land when the kernel waits for them; or in descending order, with copies that land at once. A
 * kernel whose result depends on it lacks a barrier. Copies out of shared memory likewise read it
 * when they are waited for, or at once. Matrix products are exact sums rounded once: a tolerance,
 * not bits.
 */
#ifndef EMULATE_H
#define EMULATE_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define KERNELS_COMMON_PTX_CUH
#define __host__
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __grid_constant__
#define __align__(n)
#define __launch_bounds__(...)

struct uint4 {
    unsigned x, y, z, w;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct emu_dim3 {
    unsigned x, y, z;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float __uint_as_float(unsigned bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline float rsqrtf(float x)
{
    return (float)(1.0 / sqrt((double)x));
}

/* ---- Fibers ---- */

struct emu_copy {
    void *to;
    std::vector<unsigned char> bytes;
};

struct emu_fiber {
    ucontext_t start;
    jmp_buf at; /* no system call, unlike swapcontext */
    std::vector<char> stack;
    bool started, done, parked;                /* parked: waits for other warps */
    std::vector<std::vector<emu_copy>> groups; /* committed, oldest first */
    std::vector<emu_copy> open;
    std::vector<std::function<void()>> stores; /* by the copy engine, not yet done */
};

static struct {
    jmp_buf scheduler;
    std::vector<emu_fiber> fibers;
    unsigned current, threads;
    bool descending;
    std::function<void()> body;
    unsigned barrier_arrived[16], barrier_phase[16];
    unsigned warp_arrived[32], warp_phase[32];
    uint64_t exchange[32][32][4];
    unsigned char *smem; /* the kernel's dynamic shared memory, EMU_SMEM bytes */
} emu;

static emu_dim3 threadIdx, blockIdx, gridDim;
#define EMU_SMEM 232448u

static void emu_yield(bool parked)
{
    emu.fibers[emu.current].parked = parked;
    if (_setjmp(emu.fibers[emu.current].at) == 0)
        _longjmp(emu.scheduler, 1);
}

/* Comes to a barrier; true for the thread that completes it. */
static bool emu_arrive(unsigned id, unsigned threads)
{
    if (++emu.barrier_arrived[id] < threads)
        return false;
    emu.barrier_arrived[id] = 0;
    emu.barrier_phase[id]++;
    for (emu_fiber &f : emu.fibers)
        f.parked = false;
    return true;
}

static void named_barrier(unsigned id, unsigned threads)
{
    const unsigned phase = emu.barrier_phase[id];
    if (emu_arrive(id, threads))
        return;
    while (emu.barrier_phase[id] == phase)
        emu_yield(true);
}

template <unsigned id, unsigned threads> static void fixed_barrier_wait()
{
    named_barrier(id, threads);
}

template <unsigned id, unsigned threads> static void fixed_barrier_arrive()
{
    emu_arrive(id, threads);
}

static inline void __syncthreads()
{
    named_barrier(0, emu.threads);
}

static inline void __syncwarp()
{
    const unsigned warp = emu.current / 32, phase = emu.warp_phase[warp];
    if (++emu.warp_arrived[warp] == 32) {
        emu.warp_arrived[warp] = 0;
        emu.warp_phase[warp]++;
        return;
    }
    while (emu.warp_phase[warp] == phase)
        emu_yield(false);
}

/* Gives every lane the `words` words of all lanes of its warp: out[lane][word]. */
static void emu_gather(const uint64_t *mine, int words, uint64_t (*out)[4])
{
    const unsigned warp = emu.current / 32, lane = emu.current % 32;
    __syncwarp();
    for (int i = 0; i < words; ++i)
        emu.exchange[warp][lane][i] = mine[i];
    __syncwarp();
    memcpy(out, emu.exchange[warp], sizeof emu.exchange[warp]);
}

template <class T> static T __shfl_sync(unsigned, T value, int lane)
{
    uint64_t mine = 0, all[32][4];
    T result;
    memcpy(&mine, &value, sizeof value);
    emu_gather(&mine, 1, all);
    memcpy(&result, &all[lane][0], sizeof result);
    return result;
}

template <class T> static T __shfl_xor_sync(unsigned mask, T value, int bits)
{
    return __shfl_sync(mask, value, (int)(emu.current % 32) ^ bits);
}

static void emu_entry()
{
    emu.body();
    emu.fibers[emu.current].done = true;
    emu_yield(true);
}

static void emu_resume()
{
    emu_fiber &f = emu.fibers[emu.current];
    if (_setjmp(emu.scheduler) != 0)
        return;
    if (f.started)
        _longjmp(f.at, 1);
    f.started = true;
    setcontext(&f.start);
}

/* Runs a warp until all its lanes wait for other warps: as far ahead of them as it can get. Returns
 * how many lanes ended. */
static unsigned emu_warp(unsigned warp)
{
    unsigned ended = 0;
    bool active = true;
    for (unsigned lane = 0; lane < 32; ++lane)
        emu.fibers[32 * warp + lane].parked = false;
    for (unsigned turn = 0; active; ++turn) {
        active = false;
        if (turn > 10000000) {
            fprintf(stderr, "emulate: a warp hangs\n");
            abort();
        }
        for (unsigned lane = 0; lane < 32; ++lane) {
            emu.current = 32 * warp + (emu.descending ? 31 - lane : lane);
            emu_fiber &f = emu.fibers[emu.current];
            if (f.done || f.parked)
                continue;
            threadIdx = {emu.current, 0, 0};
            emu_resume();
            ended += f.done;
            active |= !f.done && !f.parked;
        }
    }
    return ended;
}

static void emu_block(unsigned threads)
{
    if (emu.fibers.size() < threads)
        emu.fibers.resize(threads);
    emu.threads = threads;
    memset(emu.barrier_arrived, 0, sizeof emu.barrier_arrived);
    memset(emu.warp_arrived, 0, sizeof emu.warp_arrived);
    memset(emu.smem, 0xFF, EMU_SMEM); /* NaNs */
    for (unsigned i = 0; i < threads; ++i) {
        emu_fiber &f = emu.fibers[i];
        f.stack.resize(64 << 10);
        f.done = false;
        f.groups.clear();
        f.open.clear();
        f.stores.clear();
        f.started = false;
        getcontext(&f.start);
        f.start.uc_stack.ss_sp = f.stack.data();
        f.start.uc_stack.ss_size = f.stack.size();
        f.start.uc_link = nullptr;
        makecontext(&f.start, emu_entry, 0);
    }
    unsigned left = threads;
    for (unsigned round = 0; left > 0; ++round) {
        for (unsigned w = 0; w < threads / 32; ++w)
            left -= emu_warp(emu.descending ? threads / 32 - 1 - w : w);
        if (round > 1000000) {
            fprintf(stderr, "emulate: the block hangs\n");
            abort();
        }
    }
}

/* Runs body() as every thread of every block of the grid. */
static void emu_launch(emu_dim3 grid, unsigned threads, unsigned char *smem,
                       std::function<void()> body)
{
    emu.smem = smem;
    emu.body = body;
    gridDim = grid;
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
                emu_block(threads);
}

/* ---- The functions of ptx.cuh ---- */

#include "types.cuh"

DEVICE u32 smem_address(const void *pointer)
{
    return (u32)((const unsigned char *)pointer - emu.smem);
}

static void *emu_at(u32 smem)
{
    if (smem >= EMU_SMEM) {
        fprintf(stderr, "emulate: shared address %u\n", smem);
        abort();
    }
    return emu.smem + smem;
}

/* Of the two moments between which a copy may land, each order of the warps takes one. */
static void emu_land_early(const emu_copy &copy)
{
    if (emu.descending)
        memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
}

/* `bytes` of a copy of `size`, zeros after. */
static void emu_cp_async(u32 smem, const void *global, u32 bytes, u32 size)
{
    if (smem % size != 0 || (bytes > 0 && (uintptr_t)global % size != 0)) {
        fprintf(stderr, "emulate: misaligned cp.async\n");
        abort();
    }
    emu_copy copy = {emu_at(smem), std::vector<unsigned char>(size)};
    memcpy(copy.bytes.data(), global, bytes);
    emu_land_early(copy);
    emu.fibers[emu.current].open.push_back(copy);
}

DEVICE void shared_load_volatile_u32x2(u32 (&r)[2], u32 smem)
{
    memcpy(r, emu_at(smem), 8);
}

DEVICE void cp_async_16_or_zero(u32 smem, const void *global, u32 bytes)
{
    emu_cp_async(smem, global, bytes, 16);
}

DEVICE void cp_async_4(u32 smem, const void *global)
{
    emu_cp_async(smem, global, 4, 4);
}

DEVICE void cp_async_16(u32 smem, const void *global)
{
    cp_async_16_or_zero(smem, global, 16);
}

DEVICE void cp_async_commit()
{
    emu_fiber &f = emu.fibers[emu.current];
    f.groups.push_back(f.open);
    f.open.clear();
}

template <int pending> DEVICE void cp_async_wait()
{
    emu_fiber &f = emu.fibers[emu.current];
    while (f.groups.size() > pending) {
        for (const emu_copy &copy : f.groups.front())
            memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
        f.groups.erase(f.groups.begin());
    }
}

static void emu_ldmatrix(u32 (&r)[4], u32 smem, bool transposed)
{
    const uint64_t mine = smem;
    uint64_t all[32][4];
    const unsigned lane = emu.current % 32;
    if (smem % 16 != 0) {
        fprintf(stderr, "emulate: misaligned ldmatrix\n");
        abort();
    }
    emu_gather(&mine, 1, all);
    for (unsigned tile = 0; tile < 4; ++tile) {
        u16 half[2];
        for (unsigned e = 0; e < 2; ++e) {
            unsigned row = lane / 4, column = lane % 4 * 2 + e;
            if (transposed)
                std::swap(row, column);
            memcpy(&half[e], (char *)emu_at((u32)all[8 * tile + row][0]) + 2 * column, 2);
        }
        r[tile] = half[0] | (u32)half[1] << 16;
    }
}

DEVICE void ldmatrix_x4(u32 (&r)[4], u32 smem)
{
    emu_ldmatrix(r, smem, false);
}

DEVICE void ldmatrix_x4_transposed(u32 (&r)[4], u32 smem)
{
    emu_ldmatrix(r, smem, true);
}

static void emu_stmatrix(u32 smem, const u32 (&r)[4], bool transposed)
{
    const uint64_t mine[3] = {smem, r[0] | (uint64_t)r[1] << 32, r[2] | (uint64_t)r[3] << 32};
    uint64_t all[32][4];
    const unsigned lane = emu.current % 32;
    if (smem % 16 != 0) {
        fprintf(stderr, "emulate: misaligned stmatrix\n");
        abort();
    }
    emu_gather(mine, 3, all);
    for (unsigned tile = 0; tile < 4; ++tile)
        for (unsigned e = 0; e < 2; ++e) {
            const u16 half = (u16)(r[tile] >> (16 * e));
            unsigned row = lane / 4, column = lane % 4 * 2 + e;
            if (transposed)
                std::swap(row, column);
            memcpy((char *)emu_at((u32)all[8 * tile + row][0]) + 2 * column, &half, 2);
        }
}

DEVICE void stmatrix_x4(u32 smem, const u32 (&r)[4])
{
    emu_stmatrix(smem, r, false);
}

DEVICE void stmatrix_x4_transposed(u32 smem, const u32 (&r)[4])
{
    emu_stmatrix(smem, r, true);
}

DEVICE void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    uint64_t all[32][4];
    const uint64_t mine[3] = {a[0] | (uint64_t)a[1] << 32, a[2] | (uint64_t)a[3] << 32,
                              b[0] | (uint64_t)b[1] << 32};
    const unsigned lane = emu.current % 32, g = lane / 4, t = lane % 4;
    emu_gather(mine, 3, all);
    for (unsigned e = 0; e < 4; ++e) {
        const unsigned row = g + 8 * (e / 2), column = 2 * t + e % 2;
        double sum = d[e];
        for (unsigned k = 0; k < 16; ++k) {
            const uint64_t *at = all[row % 8 * 4 + k % 8 / 2];
            const uint64_t *bt = all[column * 4 + k % 8 / 2];
            const u16 x = (u16)(at[k / 8] >> (row / 8 * 32 + k % 2 * 16));
            const u16 y = (u16)(bt[2] >> (k / 8 * 32 + k % 2 * 16));
            sum += (double)f32_from_bf16(x) * (double)f32_from_bf16(y);
        }
        d[e] = (float)sum;
    }
}

DEVICE u16 bf16_from_f32(float value)
{
    u32 bits;
    memcpy(&bits, &value, 4);
    if (value != value)
        return 0x7FFF;
    return (u16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

DEVICE u32 bf16x2_from_f32(float low, float high)
{
    return bf16_from_f32(low) | (u32)bf16_from_f32(high) << 16;
}

#include "emulate_hopper.h"

#endif
