#!/usr/bin/env python3
"""Generates the project of an image of many modules: load_corpus.py FOLDER [MODULES]

FOLDER/corpus.lua: MODULES (336, the most) modules of one entry, run(out, in, n), four families of kernels in tile
variants, as engines have them. FOLDER/fix.lua: the first of them anew, as a hot fix. run leaves the module's number
in out[n], 1000 in the fix.
"""
import itertools
import os
import sys

OPS, ITEMS, TILES, FAMILIES = range(7), (2, 4, 8, 16), (64, 128, 256), ("norm", "product", "attend", "scan")

SOURCE = r"""
// OP: what is done to each value; FAMILY: how values meet.
__device__ inline float op(float x)
{
    if (OP == 0)
        return x / (1.0f + expf(-x));
    if (OP == 1)
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    if (OP == 2)
        return fmaxf(x, 0.0f);
    if (OP == 3)
        return tanhf(x);
    if (OP == 4)
        return rsqrtf(x * x + 1e-6f);
    if (OP == 5)
        return log1pf(expf(x));
    return rintf(x * 127.0f);
}

__shared__ float shared[TILE * 2];

__device__ float sum(float x)
{
    shared[threadIdx.x] = x;
    for (int step = TILE / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            shared[threadIdx.x] += shared[threadIdx.x + step];
    }
    __syncthreads();
    return shared[0];
}

extern "C" __global__ void __launch_bounds__(TILE) run(float *out, const float *in, int n)
{
    float v[ITEMS], total = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = (blockIdx.x * ITEMS + i) * TILE + threadIdx.x;
        v[i] = at < n ? op(in[at]) : 0.0f;
        total += v[i] * v[i];
    }
    if (FAMILY == 0) {
        float scale = rsqrtf(sum(total) / (TILE * ITEMS) + 1e-6f);
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            v[i] *= scale;
    } else if (FAMILY == 1) {
        for (int k = 0; k < n; k += ITEMS) {
            shared[threadIdx.x] = in[k + threadIdx.x % ITEMS];
            __syncthreads();
#pragma unroll
            for (int i = 0; i < ITEMS; i++)
#pragma unroll
                for (int j = 0; j < ITEMS; j++)
                    v[i] = fmaf(v[j], shared[(i * ITEMS + j) % TILE], v[i]);
            __syncthreads();
        }
    } else if (FAMILY == 2) {
        float top = -3e38f, rest = 0;
        for (int t = 0; t < n; t++) {
            float s = 0;
#pragma unroll
            for (int i = 0; i < ITEMS; i++)
                s = fmaf(v[i], in[t * ITEMS + i], s);
#pragma unroll
            for (int j = 16; j; j /= 2)
                s += __shfl_xor_sync(~0u, s, j);
            float next = fmaxf(top, s), keep = __expf(top - next), p = __expf(s - next);
            rest = rest * keep + p;
            top = next;
#pragma unroll
            for (int i = 0; i < ITEMS; i++)
                v[i] = fmaf(v[i], keep, p * in[t * ITEMS + i]);
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            v[i] /= rest + 1.0f;
    } else {
#pragma unroll
        for (int i = 1; i < ITEMS; i++)
            v[i] += v[i - 1];
        float *from = shared, *to = shared + TILE;
        from[threadIdx.x] = v[ITEMS - 1];
        for (int step = 1; step < TILE; step *= 2) {
            __syncthreads();
            to[threadIdx.x] = from[threadIdx.x] + (threadIdx.x >= step ? from[threadIdx.x - step] : 0.0f);
            float *other = from;
            from = to;
            to = other;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            v[i] += threadIdx.x > 0 ? from[threadIdx.x - 1] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = (blockIdx.x * ITEMS + i) * TILE + threadIdx.x;
        if (at < n)
            out[at] = v[i];
    }
    if (threadIdx.x == 0 && blockIdx.x == 0)
        out[n] = NUMBER;
}
"""


def module(number, op, items, tile, family):
    constants = f"OP = {op}, ITEMS = {items}, TILE = {tile}, FAMILY = {FAMILIES.index(family)}, NUMBER = {number}"
    return (f'  k.module "{family}_{tile}x{items}_op{op}" {{ source = "kernels/run.cu", tile = {{ {constants} }},'
            f" entries = {{ k.entry \"run\" {{ block = {tile} }} }} }},\n")


def main():
    folder, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    modules = list(itertools.product(OPS, ITEMS, TILES, FAMILIES))[:most]
    texts = {"kernels/run.cu": SOURCE}
    for name, lines in (("corpus", [module(i, *m) for i, m in enumerate(modules)]), ("fix", [module(1000, *modules[0])])):
        texts[f"{name}.lua"] = (f'local k = require "kpack"\nreturn k.target {{ name = "{name}", arch = "sm_90a", modules = {{\n'
                                + "".join(lines) + "} }\n")
    os.makedirs(os.path.join(folder, "kernels"), exist_ok=True)
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)


if __name__ == "__main__":
    main()
