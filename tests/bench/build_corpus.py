#!/usr/bin/env python3
"""Generates a project to build: build_corpus.py FOLDER [UNITS]

UNITS (500) small kernel files with two entries each. Headers are shared three deep: a unit includes one of 40
operation headers, that one of 8 vector headers, that the only number header. Also written: build.ninja and a
Makefile over the same graph. Their compiler is `$NVCC -cubin` when that is set, else a stand-in that writes the same
depfile.
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


def description(folder, count):
    lines = [f'  k.module "unit{i:04}" {{ source = "kernels/unit{i:04}.cu",'
             f' entries = {{ "unit{i:04}_map", "unit{i:04}_sum" }} }},' for i in range(count)]
    write(folder, "corpus.lua", 'local k = require "kpack"\n'
          f'return k.target {{ name = "corpus", arch = "{ARCH}", modules = {{\n' + "\n".join(lines) + "\n} }\n")


def peers(folder, count):
    names = [f"unit{i:04}" for i in range(count)]
    cubins = " ".join(f"peer/{n}.cubin" for n in names)
    write(folder, "build.ninja", "rule cubin\n  command = ./compile $in $out\n  depfile = $out.d\n  deps = gcc\n"
          + "".join(f"build peer/{n}.cubin: cubin kernels/{n}.cu\n" for n in names)
          + f"rule pack\n  command = cat $in > $out\nbuild peer/all: pack {cubins}\n")
    write(folder, "Makefile", f"all: {cubins}\npeer/%.cubin: kernels/%.cu\n\t@./compile $< $@\n")
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
    headers(folder)
    for number in range(count):
        unit(folder, number)
    description(folder, count)
    peers(folder, count)


main()
