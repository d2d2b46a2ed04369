/* emulate_hopper.h: the part of emulate.h that stands in for the copy engine, its barriers and
 * wgmma. */
#ifndef EMULATE_HOPPER_H
#define EMULATE_HOPPER_H

/* The copy engine: a map is {base, columns, rows, pitch} and its boxes, by default 64 rows of 128
 * columns. */
struct tensor_map {
    const u16 *base;
    u64 columns, rows, pitch;
    u64 box_columns = 128, box_rows = 64;
    bool swizzle = false; /* of rows of 128 or 64 bytes */

    u64 box_bytes() const
    {
        return box_columns * box_rows * 2;
    }

    /* Where element (r, c) of a box lies, in elements. */
    u64 at(u64 r, u64 c) const
    {
        const u64 pieces = box_columns / 8, twist = swizzle ? r * pieces / 8 % pieces : 0;
        return r * box_columns + (c / 8 ^ twist) * 8 + c % 8;
    }
};

/* A phase ends when `count` threads have arrived and the bytes that they expect were asked for. */
struct emu_barrier {
    std::vector<emu_copy> copies;
    u32 phase, count, left;
    int64_t bytes;
};
static std::map<u32, emu_barrier> emu_barriers;

static void emu_turn(emu_barrier &b)
{
    if (b.left > 0 || b.bytes != 0)
        return;
    b.phase ^= 1;
    b.left = b.count;
    for (emu_fiber &f : emu.fibers)
        f.parked = false;
}

DEVICE void mbarrier_init(u32 barrier, u32 count)
{
    emu_barriers[barrier] = {{}, 0, count, count, 0};
}

DEVICE void fence_mbarrier_init()
{
}

DEVICE void fence_async_shared()
{
}

DEVICE void tensor_map_prefetch(const tensor_map *)
{
}

// Every kernel is launched plainly here.
DEVICE void grid_launch_dependents()
{
}

DEVICE void grid_wait()
{
}

DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes)
{
    emu_barrier &b = emu_barriers[barrier];
    b.left--;
    b.bytes += bytes;
    emu_turn(b);
}

DEVICE void mbarrier_arrive(u32 barrier)
{
    mbarrier_arrive_expect(barrier, 0);
}

DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity)
{
    emu_barrier &b = emu_barriers[barrier];
    if (b.phase == parity)
        return emu_yield(true), false;
    for (const emu_copy &copy : b.copies)
        memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    b.copies.clear();
    return true;
}

DEVICE void tma_load_2d(u32 smem, const tensor_map *map, u32 column, u32 row, u32 barrier)
{
    emu_copy copy = {emu_at(smem), std::vector<unsigned char>(map->box_bytes())};
    u16 *to = (u16 *)copy.bytes.data();
    for (u64 r = 0; r < map->box_rows; ++r)
        for (u64 c = 0; c < map->box_columns; ++c)
            if (row + r < map->rows && column + c < map->columns)
                to[map->at(r, c)] = map->base[(row + r) * map->pitch + column + c];
    emu_land_early(copy);
    emu_barrier &b = emu_barriers[barrier];
    b.copies.push_back(copy);
    b.bytes -= (int64_t)map->box_bytes();
    emu_turn(b);
}

DEVICE void tma_store_2d(const tensor_map *map, u32 column, u32 row, u32 smem)
{
    const auto store = [=] {
        const u16 *from = (const u16 *)emu_at(smem);
        for (u64 r = 0; r < map->box_rows; ++r)
            for (u64 c = 0; c < map->box_columns; ++c)
                if (row + r < map->rows && column + c < map->columns)
                    ((u16 *)map->base)[(row + r) * map->pitch + column + c] = from[map->at(r, c)];
    };
    if (emu.descending)
        store();
    else
        emu.fibers[emu.current].stores.push_back(store);
}

DEVICE void bulk_commit()
{
}

DEVICE void bulk_wait()
{
    for (const auto &store : emu.fibers[emu.current].stores)
        store();
    emu.fibers[emu.current].stores.clear();
}

DEVICE void bulk_wait_read()
{
    bulk_wait();
}

/* ---- wgmma: done at once ---- */

DEVICE u64 wgmma_operand_k128(u32 smem)
{
    return (smem & 0x3ffff) >> 4 | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

DEVICE u64 wgmma_operand_n128(u32 smem, u32 bytes)
{
    return (smem & 0x3ffff) >> 4 | (u64)(bytes >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

DEVICE u64 wgmma_operand_n64(u32 smem)
{
    return (smem & 0x3ffff) >> 4 | 1ull << 16 | (u64)(512 >> 4) << 32 | 2ull << 62;
}

DEVICE void wgmma_fence()
{
}

DEVICE void wgmma_commit()
{
}

template <int pending> DEVICE void wgmma_wait()
{
}

static void emu_wgmma(float *d, unsigned columns, const u32 (&a)[4], u64 b, bool accumulate,
                      bool transposed)
{
    uint64_t all[32][4];
    const uint64_t mine[2] = {a[0] | (uint64_t)a[1] << 32, a[2] | (uint64_t)a[3] << 32};
    const unsigned lane = emu.current % 32, g = lane / 4, t = lane % 4;
    const u32 start = (u32)(b & 0x3fff) << 4, leading = (u32)(b >> 16 & 0x3fff) << 4,
              stride = (u32)(b >> 32 & 0x3fff) << 4, row_bytes = b >> 62 == 1 ? 128 : 64;
    emu_gather(mine, 2, all);
    for (unsigned n = 0; n < columns; n += 8)
        for (unsigned e = 0; e < 4; ++e) {
            const unsigned row = g + 8 * (e / 2), column = n + 2 * t + e % 2;
            double sum = accumulate ? d[n / 2 + e] : 0.0;
            for (unsigned k = 0; k < 16; ++k) {
                u32 at = transposed
                             ? start + column / (row_bytes / 2) * leading +
                                   column % (row_bytes / 2) * 2 + k / 8 * stride + k % 8 * row_bytes
                             : start + column / 8 * stride + column % 8 * row_bytes + k * 2;
                u16 y;
                at ^= (at >> 7 & (row_bytes / 16 - 1)) << 4;
                memcpy(&y, emu_at(at), 2);
                const u16 x =
                    (u16)(all[row % 8 * 4 + k % 8 / 2][k / 8] >> (row / 8 * 32 + k % 2 * 16));
                sum += (double)f32_from_bf16(x) * (double)f32_from_bf16(y);
            }
            d[n / 2 + e] = (float)sum;
        }
}

template <u32 transposed = 0>
DEVICE void wgmma_m64n32k16(float (&d)[16], const u32 (&a)[4], u64 b, u32 accumulate)
{
    emu_wgmma(d, 32, a, b, accumulate, transposed);
}

DEVICE void wgmma_m64n64k16(float (&d)[32], const u32 (&a)[4], u64 b, u32 accumulate)
{
    emu_wgmma(d, 64, a, b, accumulate, false);
}

template <u32 transposed = 0>
DEVICE void wgmma_m64n128k16(float (&d)[64], const u32 (&a)[4], u64 b, u32 accumulate)
{
    emu_wgmma(d, 128, a, b, accumulate, transposed);
}

#endif
