#!/usr/bin/env python3
"""split and lto: NVRTC's LTO-IR and nvJitLink, with the real ones, where they are."""
import os
import re
import struct
import sys

from harness import ROOT, Folder, Skip, check, kpack, main, read, same, test, write
from project import build, entry, listing, module, source, target, tiny

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import read_kpk  # noqa: E402

MATH = """extern "C" __global__ void fused(float *x) { x[0] = x[1] * x[2] + x[3]; x[4] = x[5] * x[6] - x[7]; }
extern "C" __global__ void divide(float *x) { x[0] = x[1] / x[2]; x[3] = sqrtf(x[4]); }
extern "C" __global__ void wide(float *x) {
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; i++) v[i] = x[i * 7 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 64; i++) x[i * 5 + threadIdx.x] = v[63 - i] + v[i * 3 % 64];
}
"""
ENTRIES = '"fused", "divide", "wide"'


def need_nvjitlink():
    if not re.search(r"^nvJitLink +/", kpack("doctor").out, re.M):
        raise Skip("no nvJitLink on this machine")


def real(folder, *args, **more):
    need_nvjitlink()
    return build(folder, *(args or ("tiny.lua", "--no-cache")), fake=None, **more)


def project(folder, text, entries, more="split = true,", **target_more):
    tiny(folder, module("m", entries, more), **target_more)
    source(folder, "m", text)


def built(folder, *arguments, **more):
    project(folder, *arguments, **more)
    result = real(folder)
    same(result.status, 0, result)
    return result


def image(folder):
    """The reader of the format's test: entries with their objects, and the cubins."""
    found = read_kpk.Image(read(f"{folder}/out/tiny.kpk"))
    blobs = [blob for group in range(len(found.groups)) for blob in found.read_group(group)]
    return found, [blobs[blob] for _, blob in found.objects]


def code(cubin, kernel):
    """The 9 low opcode bits of each instruction of a kernel."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in sections:
        start = sections[names][4] + name
        if cubin[start:cubin.index(b"\0", start)] == b".text." + kernel.encode():
            return [struct.unpack_from("<Q", cubin, at)[0] & 0x1FF for at in range(offset, offset + length, 16)]
    raise AssertionError(f"no code of {kernel}")


def failing(folder, text, entries, *said, more="split = true,", **target_more):
    project(folder, text, entries, more, **target_more)
    result = real(folder)
    same(result.status, 1, result)
    for words in said:
        check(words in result.err, words, result)
    return result


NAMES = """template <int N> __global__ void scaled(float *x) { *x *= N; }
extern "C" __global__ void foo(float *x) { *x = 1; }
extern "C" __global__ void foo_bar(float *x) { *x = 2; }
extern "C" __global__ void other(float *x) { *x = 3; }
"""


@test("each entry is an object of its own; names that contain one another share one")
def _():
    with Folder() as folder:
        built(folder, NAMES, '"other", "foo", k.entry "s3" { expression = "scaled<3>" }, "foo_bar",'
                             ' k.entry "s4" { expression = "scaled<4>" }')
        found, objects = image(folder)
        places = {e["name"]: e["object"] for e in found.entries}
        same((len(objects), places["foo"] == places["foo_bar"]), (4, True))
        same(len({places[n] for n in ("foo", "other", "s3", "s4")}), 4)
        for name, symbol in (("other", "other"), ("s3", "_Z6scaledILi3EEvPf")):
            check(code(objects[places[name]], symbol))
            check(b".text.foo" not in objects[places[name]], name)
        same(kpack("verify", "out/tiny.kpk", cwd=folder).status, 0)


@test("a kernel that no description declares may not come along")
def _():
    with Folder() as folder:
        failing(folder, NAMES, '"other", "foo"', "'tiny/m:foo' also holds the kernel 'foo_bar'")
        failing(folder, NAMES, '"other", "foo", "foo_bar", "fob"', "has no entry 'fob'")


@test("--fmad=false holds in what is linked, as in what NVRTC makes alone")
def _():
    ffma = 0x023
    with Folder() as folder:
        for more in ("split = true,", "lto = true,", ""):
            for flags, wanted in (('flags = { "--fmad=false" },', False), ('flags = { "-fmad=true" },', True), ("", True)):
                built(folder, MATH, '"fused", "divide"', more + flags)
                found, objects = image(folder)
                place = [e["object"] for e in found.entries if e["name"] == "fused"][0]
                same(ffma in code(objects[place], "fused"), wanted, more, flags)


@test("precision, fast math and register limits are nvJitLink's as they are NVRTC's")
def _():
    with Folder() as folder:
        for flags in ("", "-prec-div=false", "--prec-sqrt=false", "-ftz=true", "--use_fast_math", "-maxrregcount=32",
                      "--ptxas-options=-O1"):
            sizes = []
            for more in ("split = true,", "lto = true,", ""):
                built(folder, MATH, ENTRIES, more + (f'flags = {{ "{flags}" }},' if flags else ""))
                sizes.append([(entry(folder, n)["code_bytes"], entry(folder, n)["registers"])
                              for n in ("divide", "wide")])
            same(sizes[0], sizes[1], flags)
            check(all(abs(a - b) <= 256 for a, b in zip(*([s[0] for s in sizes[i]] for i in (0, 2)))), flags, sizes)
            check("maxrregcount" not in flags or sizes[0][1][1] <= 32, sizes)
        plain = entry(folder, "divide")["code_bytes"]
        built(folder, MATH, ENTRIES, 'split = true, flags = { "--use_fast_math" },')
        check(entry(folder, "divide")["code_bytes"] < plain / 2)
        built(folder, MATH, ENTRIES, 'split = true, flags = { "--use_fast_math", "--fmad=false" },')
        found, objects = image(folder)
        place = [e["object"] for e in found.entries if e["name"] == "fused"][0]
        check(0x023 not in code(objects[place], "fused"))


@test("spills are known, and limits on them hold")
def _():
    with Folder() as folder:
        built(folder, MATH, ENTRIES, 'split = true, flags = { "-maxrregcount=24" },')
        spills = entry(folder, "wide")["spill_bytes"]
        check(spills > 0 and entry(folder, "fused")["spill_bytes"] == 0, spills)
        failing(folder, MATH, f'k.entry "wide" {{ limits = {{ spill_bytes = {spills - 1} }} }}, "fused"',
                f"entry 'wide' uses {spills} bytes of spills", more='split = true, flags = { "-maxrregcount=24" },')


@test("a flag without a counterpart is refused by its name before anything is compiled")
def _():
    with Folder() as folder:
        for flag in ("--extra-device-vectorization", "-G", "--dlink-time-opt", "-fmad=maybe", "--new-in-the-next-release"):
            for more in ("split", "lto"):
                result = failing(folder, MATH, ENTRIES, f"the flag '{flag}'", f"without {more}",
                                 more=f'{more} = true, flags = {{ "{flag}" }},')
                line, caret = result.err.splitlines()[1:3]
                check("tiny.lua:4:" in result.err and "[1/" not in result.err, result)
                check(line[caret.index("^"):].startswith("flags = "), result)
        built(folder, MATH, ENTRIES, 'split = true, flags = { "-DX=1", "-std=c++17", "-lineinfo", "--restrict" },')


VARIABLES = {
    "both write": ("__device__ int shared;", "shared++; *x = shared;", "shared += 2; *x = shared;", True),
    "one writes, the other reads": ("__device__ int shared = 3;", "*x = shared;", "shared = *x;", True),
    "a static one": ("static __device__ int shared = 3;", "*x = shared;", "shared = *x;", True),
    "an array": ("__device__ int shared[4];", "*x = shared[*x & 3];", "atomicAdd(&shared[*x & 3], 1);", True),
    "through a pointer": ("__device__ int shared[4]; __device__ __noinline__ void set(int *p) { *p = 1; }",
                          "*x = shared[*x & 3];", "set(shared + (*x & 3));", True),
    "written by none": ("__device__ int shared[4] = {1, 2, 3, 4};", "*x = shared[*x & 3];", "x[1] = shared[x[1] & 3];", False),
    "a table": ("__device__ const int shared[4] = {1, 2, 3, 4};", "*x = shared[*x & 3];", "x[1] = shared[x[1] & 3];", False),
    "a constant": ("__constant__ int shared[4] = {1, 2, 3, 4};", "*x = shared[*x & 3];", "x[1] = shared[x[1] & 3];", False),
    "used by one": ("__device__ int shared;", "shared++; *x = shared;", "*x = 1;", False),
    "text": ("", "printf(\"%d\\n\", *x); assert(*x);", "printf(\"%d\\n\", *x); assert(*x);", False),
}


@test("a variable that is written and that two objects use is an error; others are not")
def _():
    with Folder() as folder:
        for name, (declared, one, two, wrong) in VARIABLES.items():
            text = (f"{declared}\n" f'extern "C" __global__ void one(int *x) {{ {one} }}\n'
                    f'extern "C" __global__ void two(int *x) {{ {two} }}\n')
            project(folder, text, '"one", "two"')
            result = real(folder)
            same(result.status, int(wrong), name, result)
            check(not wrong or "share the variable 'shared', which is written" in result.err, name, result)
            project(folder, text, '"one", "two"', "lto = true,")
            same(real(folder).status, 0, name)


@test("the same bytes with any number of workers, and from the cache")
def _():
    with Folder() as folder:
        built(folder, MATH, ENTRIES)
        first = read(f"{folder}/out/tiny.kpk")
        for arguments in (("-j1", "--no-cache"), ("-j8", "--no-cache"), ("--cache", "kept"), ("--cache", "kept")):
            os.remove(f"{folder}/out/tiny.kpk")
            result = real(folder, "tiny.lua", *arguments)
            same((result.status, read(f"{folder}/out/tiny.kpk") == first), (0, True), arguments, result)
        check("4 from the cache" in result.out, result)


@test("a change of flags or of an entry's list compiles what it must")
def _():
    with Folder() as folder:
        def hits(entries, more):
            project(folder, MATH, entries, more)
            result = real(folder, "tiny.lua", "--cache", "kept")
            same(result.status, 0, result)
            found = re.search(r"(\d+) from the cache", result.out)
            return int(found.group(1)) if found else 0
        same(hits('"fused", "divide"', "split = true,"), 0)
        same(hits(ENTRIES, "split = true,"), 2)  # both objects; the look at the variables is new
        same(hits(ENTRIES, 'split = true, flags = { "-fmad=false" },'), 0)
        same(hits(ENTRIES, "lto = true,"), 0)


@test("what the compiler says of a split source is said once")
def _():
    with Folder() as folder:
        result = built(folder, MATH + '__device__ void odd() { int unused; }\n', ENTRIES)
        same(result.err.count('variable "unused" was declared'), 1, result)
        project(folder, MATH + "broken\n", ENTRIES)
        for arguments in (("-j1",), ("-j3", "-k")):
            result = real(folder, "tiny.lua", "--no-cache", *arguments)
            same((result.status, len(re.findall(r"kernels/m.cu:\d+:\d+: ", result.err)) <= 2), (1, True), result)
            same(result.err.count("does not compile for sm_90a"), 1, result)


CUB = """#include <cub/block/block_reduce.cuh>
extern "C" __global__ void __launch_bounds__(128) total(const float *x, float *out) {
    using reduce = cub::BlockReduce<float, 128>;
    __shared__ typename reduce::TempStorage storage;
    const float sum = reduce(storage).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) *out = sum;
}
"""


@test("a kernel that includes cub loses the variables that nothing uses")
def _():
    with Folder() as folder:
        tiny(folder, module("m", '"total"', "lto = true,"), module("plain", '"total"'))
        source(folder, "m", CUB)
        source(folder, "plain", CUB)
        result = real(folder)
        same(result.status, 0, result)
        found, objects = image(folder)
        sizes = dict(zip([m["name"] for m in found.modules], map(len, objects)))
        check(sizes["m"] < 8192 and sizes["m"] * 8 < sizes["plain"], sizes)


@test("explain and --dry-run name the units of a split module")
def _():
    with Folder() as folder:
        project(folder, MATH, ENTRIES)
        result = real(folder, "-n", "tiny.lua")
        same(result.out.split("\n")[:-1], ["tiny/m (variables)", "tiny/m:fused", "tiny/m:divide", "tiny/m:wide"], result)
        result = real(folder, "tiny.lua", "--no-cache", "--compile-commands", "db.json")
        same((result.status, read(f"{folder}/db.json").count(b'"file"')), (0, 1), result)


main()
