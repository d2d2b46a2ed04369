#!/usr/bin/env python3
"""header: a C header of a target's names and sizes, for C and C++."""
import os
import subprocess

from harness import ROOT, Folder, Result, check, golden, kpack, main, read, same, test, write
from project import module, source, target

MODULES = [
    module("alpha", 'k.entry "scale" { block = { 32, 8 }, smem = function(t) return t.ROWS * 4 end, static_smem = 64 }, "plain"',
           "tile = { ROWS = 64, BIAS = -5, WIDE = 0x8000000000000000, LARGE = 1 << 40, EDGE = 2147483647, LEAST = -2147483648 },"),
    module("be.ta-2", 'k.entry "scale" { block = 256 }'),
    'k.module "every" { source = "kernels/alpha.cu", entries = k.every }',
]

def project(folder, name="tiny", modules=None, **more):
    source(folder, "alpha", "x")
    source(folder, "be.ta-2", "x")
    return write(f"{folder}/{name}.lua", target(modules or MODULES, name, **more))


def header(folder, *words):
    return kpack("header", *words, cwd=folder)


def compiles(folder, compiler, flags, text):
    suffix = "cpp" if compiler == "g++" else "c"
    path = write(f"{folder}/use.{suffix}", text)
    done = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", f"{folder}/use", path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, compiler, flags, done.stdout.decode())
    return subprocess.run([f"{folder}/use"], check=True, stdout=subprocess.PIPE).stdout.decode()


@test("header writes names, constants, blocks and sizes")
def _():
    with Folder() as folder:
        project(folder)
        golden("header.txt", header(folder, "tiny.lua", "-o", "tiny.h"))
        golden("header-text.txt", Result(0, read(f"{folder}/tiny.h").decode(), ""))


@test("C and C++ take it, twice, beside that of another target, and see the values")
def _():
    with Folder() as folder:
        project(folder)
        project(folder, "other-2.x")
        for name, path in (("tiny", "tiny.h"), ("other-2.x", "other.h")):
            same(header(folder, f"{name}.lua", "-o", path).status, 0)
        text = """
#include "tiny.h"
#include "tiny.h"
#include "other.h"
#include <stdio.h>
#if KPK_TINY_CONSTANT_alpha_ROWS != 64 || 3 - KPK_TINY_CONSTANT_alpha_BIAS != 8
#error "the preprocessor sees other values"
#endif
int main(void)
{
    static float shared[KPK_TINY_SMEM_alpha_scale];
    long long wide = KPK_TINY_CONSTANT_alpha_WIDE, large = KPK_TINY_CONSTANT_alpha_LARGE;
    int edge = KPK_TINY_CONSTANT_alpha_EDGE;
    long long least = KPK_TINY_CONSTANT_alpha_LEAST;
    printf("%s %s %s:%s %d %d %d %d %d %d %lld %lld %d %lld\\n", KPK_TINY_TARGET, KPK_TINY_ARCH,
           KPK_TINY_MODULE_be_ta_2, KPK_OTHER_2_X_ENTRY_be_ta_2_scale, KPK_TINY_BLOCK_X_alpha_scale,
           KPK_TINY_BLOCK_Y_alpha_scale, KPK_TINY_BLOCK_Z_alpha_scale, KPK_TINY_THREADS_alpha_scale,
           (int)(sizeof shared / sizeof *shared), KPK_TINY_STATIC_SMEM_alpha_scale, wide, large, edge, least);
    return 0;
}
"""
        expected = "tiny sm_90a be.ta-2:scale 32 8 1 256 256 64 -9223372036854775808 1099511627776 2147483647 -2147483648\n"
        for compiler, flags in (("gcc", ["-std=c99"]), ("gcc", ["-std=c11", "-Wconversion"]), ("g++", ["-std=c++11"]), ("g++", ["-std=c++17"])):
            same(compiles(folder, compiler, flags, text), expected, compiler, flags)


@test("the same description gives the same bytes, and leaves a header that has them alone")
def _():
    with Folder() as folder:
        project(folder)
        same(header(folder, "tiny.lua", "-o", "a.h").status, 0)
        os.utime(f"{folder}/a.h", (1, 1))
        result = header(folder, "tiny.lua", "-o", "a.h")
        same((result.out, os.stat(f"{folder}/a.h").st_mtime), ("a.h: 24 macros, unchanged\n", 1))
        os.mkdir(f"{folder}/elsewhere")
        same(kpack("header", f"{folder}/tiny.lua", "-o", "../b.h", cwd=f"{folder}/elsewhere").status, 0)
        same(read(f"{folder}/b.h"), read(f"{folder}/a.h"))


@test("names that would be one macro are an error at their place")
def _():
    with Folder() as folder:
        for name in ("a.b", "a_b", "a"):
            source(folder, name, "x")
        project(folder, modules=[module("a.b"), module("a_b")])
        golden("header-same.txt", header(folder, "tiny.lua", "-o", "x.h"))
        project(folder, modules=[module("a", '"b_c"'), module("a_b", '"c"')])
        golden("header-joined.txt", header(folder, "tiny.lua", "-o", "x.h"))
        check(not os.path.exists(f"{folder}/x.h"))


@test("our own targets' headers compile")
def _():
    with Folder() as folder:
        for name in ("hopper", "gb10"):
            same(header(ROOT, f"targets/{name}.lua", "-o", f"{folder}/{name}.h").status, 0)
        text = '#include "hopper.h"\n#include "gb10.h"\nint main(void) { return KPK_HOPPER_ARCH[0] != KPK_GB10_ARCH[0]; }\n'
        for compiler, flags in (("gcc", ["-std=c99"]), ("g++", ["-std=c++17"])):
            compiles(folder, compiler, flags, text)


@test("what cannot be read or written, and wrong usage")
def _():
    with Folder() as folder:
        project(folder)
        write(f"{folder}/bad.lua", "return {")
        golden("header-no-file.txt", header(folder, "tiny.lua"))
        golden("header-missing.txt", header(folder, "no.lua", "-o", "x.h"))
        golden("header-bad.txt", header(folder, "bad.lua", "-o", "x.h"))
        golden("header-no-folder.txt", header(folder, "tiny.lua", "-o", "no/x.h"))
        check(not os.path.exists(f"{folder}/x.h"))


main()
