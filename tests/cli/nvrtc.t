#!/usr/bin/env python3
"""build with the real NVRTC, where there is one."""
import os
import re
import shutil

from harness import Folder, Skip, check, kpack, main, read, same, test, write
from project import build, entry, listing, module, source, target, tiny

SCALE = """#include "scale.h"
#include <stdint.h>
#include <cuda_fp16.h>
#include <math.h>
extern "C" __global__ void __launch_bounds__(128) scale(float *x, uint32_t n)
{
    static_assert(FACTOR == -3 && 10 -FACTOR == 13 && BIG == 5000000000, "constants");
    static_assert(LEAST == -9223372036854775807 - 1 && MOST == 9223372036854775807, "extremes");
    static_assert(KPK_BLOCK_scale == 128 && KPK_SMEM_scale == 2048 && KPK_STATIC_SMEM_scale == 512, "sizes");
    extern __shared__ float dynamic[];
    __shared__ float fixed[128];
    uint32_t i = blockIdx.x * KPK_BLOCK_scale + threadIdx.x;
    fixed[threadIdx.x] = dynamic[threadIdx.x];
    __syncthreads();
    if (i < n)
        x[i] = x[i] * FACTOR * HALF + fixed[127 - threadIdx.x] + __half2float(__float2half(x[i]));
}
"""
SCALE_MODULE = module(
    "scale", 'k.entry "scale" { block = 128, smem = function(t) return t.WIDTH * 16 end, static_smem = 512,'
    ' limits = { spill_bytes = 0, registers = 64 } }',
    "tile = { WIDTH = 128, FACTOR = -3, BIG = 5000000000, LEAST = -9223372036854775807 - 1,"
    " MOST = 9223372036854775807 },"
    ' includes = { "kernels/inc" }, flags = { "--fmad=false" },')
# Forty live values that 24 registers cannot hold.
SPILL = """extern "C" __global__ void __maxnreg__(24) spill(float *x)
{
    float v[40];
#pragma unroll
    for (int i = 0; i < 40; i++)
        v[i] = x[i * 7 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 40; i++)
        x[i * 5 + threadIdx.x] = v[39 - i] * v[(i * 3) % 40];
}
"""


def need_nvrtc():
    if kpack("doctor").status != 0:
        raise Skip("no NVRTC on this machine")


def real(folder, *args, **more):
    need_nvrtc()
    return build(folder, *args, fake=None, **more)


def scale_project(folder):
    tiny(folder, SCALE_MODULE)
    source(folder, "scale", SCALE)
    write(f"{folder}/kernels/inc/scale.h", "#define HALF 0.5f\n")


@test("a kernel with constants, sizes, flags, a header, CUDA's headers and C's")
def _():
    with Folder() as folder:
        scale_project(folder)
        result = real(folder)
        same(result.status, 0, result)
        scale = entry(folder, "scale")
        same({k: scale[k] for k in ("block", "dynamic_smem", "static_smem", "spill_bytes")},
             {"block": [128, 1, 1], "dynamic_smem": 2048, "static_smem": 512, "spill_bytes": 0})
        check(scale["registers"] > 0 and scale["code_bytes"] > 0, scale)
        same(listing(folder)["modules"][0]["flags"], ["--fmad=false"])
        same(kpack("verify", "out/tiny.kpk", cwd=folder).status, 0)


@test("the same bytes with -j1 and -j8, in two folders, under two clocks")
def _():
    images = set()
    for number, name in enumerate(("one", "two and m\u00f6re")):
        with Folder(name) as folder:
            scale_project(folder)
            modules = [SCALE_MODULE.replace('"scale" {', f'"scale{i}" {{', 1) for i in range(4)]
            write(f"{folder}/tiny.lua", target(modules))
            os.utime(f"{folder}/kernels/scale.cu", (number * 10**9, number * 10**9))
            result = real(folder, "tiny.lua", "-j", ("1", "8")[number],
                          env={"TZ": f"UTC{number * 5}", "SOURCE_DATE_EPOCH": str(number)})
            same(result.status, 0, result)
            image = read(f"{folder}/out/tiny.kpk")
            check(folder.encode() not in image)
            images.add(image)
    same(len(images), 1)


@test("a mistake in a kernel: its own file and line, with a caret")
def _():
    with Folder() as folder:
        scale_project(folder)
        source(folder, "scale", SCALE.replace("x[i] * FACTOR", "x[i] * FACTR"))
        result = real(folder)
        same((result.status, os.listdir(f"{folder}/out")), (1, []))
        line = SCALE[:SCALE.index('x[i] = ')].count('\n') + 1
        text = SCALE.split('\n')[line - 1].replace("FACTOR", "FACTR")
        column = text.index("FACTR") + 1
        expected = (f'kpack: error: kernels/scale.cu:{line}:{column}: identifier "FACTR" is undefined\n'
                    f"{line:6} | {text}\n       | {' ' * (column - 1)}^\n"
                    "kpack: error: tiny.lua:4:3: 'tiny/scale' does not compile for sm_90a: 1 error\n")
        check(result.err.startswith(expected), result, "expected", expected)
        write(f"{folder}/kernels/inc/scale.h", "#define HALF 0.5f\nint broken(;\n")
        source(folder, "scale", SCALE)
        result = real(folder)
        check(re.search(r"^kpack: error: kernels/inc/scale\.h:2(:\d+)?: ", result.err, re.M), result)


@test("a missing header is named where it is included")
def _():
    with Folder() as folder:
        scale_project(folder)
        os.remove(f"{folder}/kernels/inc/scale.h")
        result = real(folder)
        same(result.status, 1)
        check(re.search(r"^kpack: error: kernels/scale\.cu:1(:\d+)?: .*scale\.h", result.err, re.M), result)


@test("a kernel that spills: recorded, and refused by a limit")
def _():
    with Folder() as folder:
        tiny(folder, module("spill"))
        source(folder, "spill", SPILL)
        write(f"{folder}/tiny.lua", target([module("spill", '"spill"')]))
        result = real(folder)
        same(result.status, 0, result)
        spilled = entry(folder, "spill")["spill_bytes"]
        check(spilled > 0, spilled)
        for limit, status in ((spilled, 0), (spilled - 1, 1)):
            write(f"{folder}/tiny.lua", target([
                module("spill", f'k.entry "spill" {{ limits = {{ spill_bytes = {limit} }} }}')]))
            result = real(folder)
            same(result.status, status, result)
        check(f"tiny.lua:4:" in result.err and "entry 'spill' uses "
              f"{spilled} bytes of spills, more than its limit of {spilled - 1}" in result.err, result)


@test("a module without a kernel is an error that says so")
def _():
    with Folder() as folder:
        tiny(folder, 'k.module "none" { source = "kernels/none.cu", entries = k.every }')
        source(folder, "none", "__device__ int unused;")
        result = real(folder)
        same(result.status, 1, result)
        check("'kernels/none.cu' compiles to no entry at all, expected a kernel" in result.err, result)


@test("k.every warns of a kernel that ships under a mangled name")
def _():
    with Folder() as folder:
        tiny(folder, 'k.module "cpp" { source = "kernels/cpp.cu", entries = k.every }')
        source(folder, "cpp", "__global__ void f(int *x) { *x = 1; }")
        result = real(folder)
        same(result.status, 0, result)
        check("tiny.lua:4:" in result.err and "warning" in result.err and "ships the entry '_Z1fPi' under that name" in result.err
              and 'extern "C"' in result.err, result)


TEMPLATES = """namespace ops {
template <class T, int N> __global__ void scale(T *x, T by) { for (int i = 0; i < N; i++) x[i] *= by; }
__device__ int variable;
static __global__ void hidden(int *x) { *x = 1; }
}
extern "C" __global__ void plain(float *x) { *x = 1; }
"""


@test("templates' instances by their C++ names, and names that are none")
def _():
    def entry_of(expression, name="x"):
        return f'k.entry "{name}" {{ expression = "{expression}" }}'
    with Folder() as folder:
        tiny(folder, module("m", ", ".join([entry_of("ops::scale<float, 4>"), entry_of("&ops::scale<double, 2>", "y"), '"plain"'])))
        source(folder, "m", TEMPLATES)
        result = real(folder)
        same(result.status, 0, result)
        symbols = {e["name"]: e["symbol"] for e in listing(folder)["modules"][0]["entries"]}
        same((symbols["x"], symbols["y"], symbols["plain"]),
             ("_ZN3ops5scaleIfLi4EEEvPT_S1_", "_ZN3ops5scaleIdLi2EEEvPT_S1_", "plain"))
        same(kpack("verify", "out/tiny.kpk", cwd=folder).status, 0)
        for expression, said in (("ops::scale<float>", "ops::scale<float>"), ("ops::other", "other"),
                                 ("ops::hidden", "'ops::hidden' of entry 'x' names no kernel"),
                                 ("&ops::variable", "'&ops::variable' of entry 'x' names no kernel of 'kernels/m.cu'")):
            tiny(folder, module("m", entry_of(expression)))
            source(folder, "m", TEMPLATES)
            result = real(folder)
            same(result.status, 1, result)
            check(said in result.err and "tiny.lua:4:" in result.err, expression, result)


@test("a comment edit leaves the image alone")
def _():
    with Folder() as folder:
        scale_project(folder)
        real(folder)
        image = f"{folder}/out/tiny.kpk"
        os.utime(image, ns=(10**18, 10**18))
        source(folder, "scale", SCALE + "// more words")
        result = real(folder)
        check("unchanged" in result.out, result)
        same(os.stat(image).st_mtime_ns, 10**18)


@test("an arch that NVRTC does not know: the list of those it knows")
def _():
    with Folder() as folder:
        scale_project(folder)
        write(f"{folder}/tiny.lua", target([SCALE_MODULE], arch="sm_35"))
        result = real(folder)
        same(result.status, 1, result)
        check("sm_35" in result.err and "sm_90" in result.err, result)


@test("a description with CRLF and a BOM builds the same image")
def _():
    with Folder() as folder:
        scale_project(folder)
        same(real(folder).status, 0)
        before = read(f"{folder}/out/tiny.kpk")
        text = read(f"{folder}/tiny.lua")
        write(f"{folder}/tiny.lua", b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
        result = real(folder)
        same((result.status, read(f"{folder}/out/tiny.kpk") == before), (0, True), result)


@test("a tree that moves elsewhere builds the same image there")
def _():
    with Folder() as folder:
        scale_project(folder)
        same(real(folder).status, 0)
        shutil.copytree(folder, f"{folder}/moved", ignore=shutil.ignore_patterns("out"))
        same(real(folder, "moved/tiny.lua").status, 0)
        same(read(f"{folder}/moved/out/tiny.kpk"), read(f"{folder}/out/tiny.kpk"))


main()
