#!/usr/bin/env python3
"""Generates projects to build: build_corpus.py FOLDER [UNITS [HEAVY]]

UNITS (500) small kernel files with two entries each. Headers are shared three deep: a unit includes one of 40
operation headers, that one of 8 vector headers, that the only number header. Also written: build.ninja and a
Makefile over the same graph. Their compiler is `$NVCC -cubin` when that is set, else a stand-in that writes the same
depfile. HEAVY (24) files of tiled products, each with several instances of one template: seconds of compiling
each, no two alike (heavy.lua, `make heavy`).
"""
import os
import sys

OPS, VECS = 40, 8
ARCH = "sm_90a"


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def headers(folder):
    write(folder, "kernels/number.cuh", "#pragma once\n__device__ inline float twice(float x) { return 2.0f * x; }\n")
    for i in range(VECS):
        write(folder, f"kernels/vec{i}.cuh", f"""#pragma once
#include "number.cuh"
struct vec{i} {{ float x, y; }};
__device__ inline vec{i} scale(vec{i} v, float by) {{ return {{ v.x * by + {i}.0f, twice(v.y) * by }}; }}
""")
    for i in range(OPS):
        vec = i % VECS
        write(folder, f"kernels/op{i}.cuh", f"""#pragma once
#include "vec{vec}.cuh"
__device__ inline float op{i}(float a, float b)
{{
    vec{vec} v = scale({{ a, b }}, {i}.5f);
    return v.x + v.y;
}}
""")


def unit(folder, number):
    op = number % OPS
    write(folder, f"kernels/unit{number:04}.cu", f"""#include "op{op}.cuh"
extern "C" __global__ void unit{number:04}_map(float *out, const float *in, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = op{op}(in[i], {number}.0f);
}}
extern "C" __global__ void unit{number:04}_sum(float *out, const float *in, int n)
{{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += op{op}(in[i], sum);
    atomicAdd(out, sum);
}}
""")


def heavy(folder, count):
    write(folder, "kernels/tile.cuh", """#pragma once
template <int ROWS, int COLUMNS, int DEPTH>
__device__ inline void product(float *out, const float *a, const float *b, int width, float bias)
{
    __shared__ float as[DEPTH][ROWS * 16], bs[DEPTH][COLUMNS * 16];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sum[ROWS][COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++)
        sum[i / COLUMNS][i % COLUMNS] = bias;
    for (int k0 = 0; k0 < width; k0 += DEPTH) {
        for (int i = threadIdx.x; i < DEPTH * ROWS * 16; i += 256)
            as[i % DEPTH][i / DEPTH] = a[(blockIdx.y * ROWS * 16 + i / DEPTH) * width + k0 + i % DEPTH];
        for (int i = threadIdx.x; i < DEPTH * COLUMNS * 16; i += 256)
            bs[i / (COLUMNS * 16)][i % (COLUMNS * 16)] = b[(k0 + i / (COLUMNS * 16)) * width + i % (COLUMNS * 16)];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    sum[i][j] += as[k][ty + i * 16] * bs[k][tx + j * 16];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            out[(blockIdx.y * ROWS * 16 + ty + i * 16) * width + blockIdx.x * COLUMNS * 16 + tx + j * 16] = sum[i][j];
}
""")
    lines = []
    for number in range(count):
        shapes = [(2 + (number + i) % 7, 2 + (number * 3 + i) % 7, 16 << (number + i) % 2) for i in range(2 + number % 3)]
        names = [f"heavy{number:02}_{r}x{c}x{d}" for r, c, d in shapes]
        write(folder, f"kernels/heavy{number:02}.cu", '#include "tile.cuh"\n' + "".join(f"""
extern "C" __global__ void __launch_bounds__(256) {name}(float *out, const float *a, const float *b, int width)
{{
    product<{r}, {c}, {d}>(out, a, b, width, {number}.0f);
}}
""" for name, (r, c, d) in zip(names, shapes)))
        entries = ", ".join(f'"{name}"' for name in names)
        lines.append(f'  k.module "heavy{number:02}" {{ source = "kernels/heavy{number:02}.cu", entries = {{ {entries} }} }},')
    return lines


def description(count):
    lines = [f'  k.module "unit{i:04}" {{ source = "kernels/unit{i:04}.cu",'
             f' entries = {{ "unit{i:04}_map", "unit{i:04}_sum" }} }},' for i in range(count)]
    return lines


def target(folder, name, lines):
    write(folder, f"{name}.lua", 'local k = require "kpack"\n'
          f'return k.target {{ name = "{name}", arch = "{ARCH}", modules = {{\n' + "\n".join(lines) + "\n} }\n")


def peers(folder, count, heavy_count):
    names = [f"unit{i:04}" for i in range(count)]
    cubins = " ".join(f"peer/{n}.cubin" for n in names)
    write(folder, "build.ninja", "rule cubin\n  command = ./compile $in $out\n  depfile = $out.d\n  deps = gcc\n"
          + "".join(f"build peer/{n}.cubin: cubin kernels/{n}.cu\n" for n in names)
          + f"rule pack\n  command = cat $in > $out\nbuild peer/all: pack {cubins}\n")
    heavies = " ".join(f"peer/heavy{n:02}.cubin" for n in range(heavy_count))
    write(folder, "Makefile", f"all: {cubins}\nheavy: {heavies}\npeer/%.cubin: kernels/%.cu\n\t@./compile $< $@\n")
    # A stand-in that writes what a compiler would say of headers, and nvcc itself.
    write(folder, "compile", """#!/bin/sh
mkdir -p peer
[ -z "$NVCC" ] || exec "$NVCC" -cubin -arch=""" + ARCH + """ -MD -MF "$2.d" -o "$2" "$1"
op=$(sed -n 's/#include "\\(.*\\)"/\\1/p' "$1"); vec=$(sed -n 's/#include "\\(.*\\)"/\\1/p' "kernels/$op")
echo "$2: $1 kernels/$op kernels/$vec kernels/number.cuh" > "$2.d"; echo "$1" > "$2"
""")
    os.chmod(os.path.join(folder, "compile"), 0o755)


def main():
    folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    heavy_count = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    headers(folder)
    for number in range(count):
        unit(folder, number)
    target(folder, "corpus", description(count))
    target(folder, "heavy", heavy(folder, heavy_count))
    peers(folder, count, heavy_count)


main()
