#!/usr/bin/env python3
"""The cache with the real NVRTC: edits in headers that are shared three deep, against full builds."""
import os
import re
import shutil
import subprocess

from harness import Folder, ROOT, Skip, binary, check, kpack, main, read, same, test, unprivileged, write

UNITS = 6  # unit i includes op<i>, that vec<i>, that number


def cuda():
    """Skips where there is no NVRTC."""
    if kpack("doctor").status:
        raise Skip("doctor finds no usable NVRTC")


def corpus(folder):
    subprocess.run([f"{ROOT}/tests/bench/build_corpus.py", folder, str(UNITS)], check=True)


def build(folder, *args, **more):
    """Builds; returns the numbers of the units that were compiled."""
    result = kpack("corpus.lua", "--progress=plain", *args, cwd=folder, **more)
    same(result.status, 0, result)
    return sorted(int(n) for n in re.findall(r"corpus/unit(\d+) [\d.]+ s$", result.err, re.M))


def full(folder):
    """The image of a build without the cache."""
    build(folder, "--no-cache", "--out", "full", "-q")
    return read(f"{folder}/full/corpus.kpk")


def append(path, text):
    with open(path, "a", encoding="ascii") as file:
        file.write(text)


@test("a header's edit compiles the units that read it; a comment leaves the image alone")
def _():
    cuda()
    with Folder() as folder:
        corpus(folder)
        kernels, image = f"{folder}/kernels", f"{folder}/out/corpus.kpk"
        everything = list(range(UNITS))
        same(build(folder), everything)
        same(build(folder), [])
        stamp = os.stat(image).st_mtime_ns
        for name, units in (("op3.cuh", [3]), ("vec2.cuh", [2]), ("number.cuh", everything), ("unit0001.cu", [1]),
                            ("op39.cuh", [])):
            append(f"{kernels}/{name}", "// a comment\n")
            same(build(folder), units, name)
            same(os.stat(image).st_mtime_ns, stamp, name)
        old = read(image)
        text = read(f"{kernels}/vec4.cuh").decode()
        write(f"{kernels}/vec4.cuh", text.replace("4.0f", "5.0f"))
        same(build(folder), [4])
        check(read(image) != old)
        same(read(image), full(folder))
        write(f"{kernels}/vec4.cuh", text)
        same(build(folder), [])
        same(read(image), old)


@test("a header that appears earlier on the path, or is hidden from us, counts")
def _():
    cuda()
    with Folder() as folder:
        corpus(folder)
        description = read(f"{folder}/corpus.lua").decode()
        os.makedirs(f"{folder}/first")
        write(f"{folder}/corpus.lua", description.replace('arch = ', 'includes = { "first", "kernels" }, arch = '))
        # Angle brackets look into the include folders alone.
        vec = f"{folder}/kernels/vec1.cuh"
        write(vec, read(vec).decode().replace('"number.cuh"', "<number.cuh>"))
        build(folder)
        write(f"{folder}/first/number.cuh", read(f"{folder}/kernels/number.cuh").decode().replace("2.0f", "3.0f"))
        same(build(folder), [1])
        same(read(f"{folder}/out/corpus.kpk"), full(folder))
        os.remove(f"{folder}/first/number.cuh")
        same(build(folder), [])
        same(read(f"{folder}/out/corpus.kpk"), full(folder))


@test("the image is the same from a cold or a warm cache, in another folder, by another user and clock")
def _():
    cuda()
    with Folder() as folder:
        corpus(folder)
        build(folder)
        image = read(f"{folder}/out/corpus.kpk")
        shutil.rmtree(f"{folder}/out")
        same(build(folder), [])
        same(read(f"{folder}/out/corpus.kpk"), image)
        with Folder("other") as other:
            corpus(other)
            same(build(other, "-j1", env={"TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "de_DE"}), [])
            same(read(f"{other}/out/corpus.kpk"), image)
            os.chmod(other, 0o777)
            who = unprivileged() if os.geteuid() == 0 else {}
            build(other, "--no-cache", "-j3", "--out", f"{other}/mine", env={"HOME": other, "USER": "x"}, **who)
            same(read(f"{other}/mine/corpus.kpk"), image)
            if not shutil.which("faketime"):
                raise Skip("faketime is not installed (.ci/setup test installs it)")
            clock = ["faketime", "-f", "2001-02-03 04:05:06"]
            # It is preloaded, before what the sanitized tool wants to be first.
            env = {**os.environ, "ASAN_OPTIONS": "verify_asan_link_order=0"}
            subprocess.run([*clock, binary(), "-q", "corpus.lua", "--no-cache", "--out", "old"], cwd=other, env=env, check=True)
            same(read(f"{other}/old/corpus.kpk"), image)


main()
