#!/usr/bin/env python3
"""doctor: what is found, what is missing, and whether a build would work."""
import shutil

from harness import ROOT, Folder, check, kpack, main, same, test, write
from project import FAKE, hidden, tiny


def lines(result):
    return {line[:12].strip(): line[13:] for line in result.out.splitlines() if line[:12].strip()}


@test("with an NVRTC: everything found, and status 0")
def _():
    with Folder() as folder:
        result = kpack("doctor", "--cuda", FAKE, cwd=folder)
        same((result.status, result.err), (0, ""), result)
        said = lines(result)
        check(f"{FAKE}/lib64/libnvrtc.so.13" in said["NVRTC"] and said["NVRTC"].startswith("13.0"), result)
        same(said["archs"], "sm_75 sm_80 sm_90[a] sm_100[af] sm_120[af] sm_121[af]")
        check(said["CUDA"].endswith("found by --cuda"), result)
        for word in ("Lua 5.4", "zstd 1.", "image format 1"):
            check(word in said["kpack"], word, result)
        check(int(said["cores"]) >= 1 and said["memory"], result)
        check(result.out.endswith("a build would work here\n"), result)


@test("archs with the suffixes that this NVRTC knows: those of families from 12.9 on")
def _():
    for version, expected in (("12 8", "sm_89 sm_90[a] sm_100[a]"), ("12 9", "sm_89 sm_90[a] sm_100[af]")):
        with Folder() as folder:
            shutil.copytree(FAKE, f"{folder}/cuda")
            builtins = f"{folder}/cuda/lib64/libnvrtc-builtins.so"
            shutil.copy(f"{builtins}.13.0", f"{builtins}.{version.replace(' ', '.')}")
            write(f"{folder}/cuda/lib64/fake.txt", f"version {version}\narchs 89 90 100\n")
            same(lines(kpack("doctor", "--cuda", f"{folder}/cuda", cwd=folder))["archs"], expected)


@test("a variable that names a folder without NVRTC: named, with what to do, and status 1")
def _():
    with Folder() as folder:
        for name in ("CUDA_HOME", "CUDA_PATH"):
            result = kpack("doctor", cwd=folder, env={name: folder})
            same(result.status, 1, result)
            check(folder in result.err and name in result.err, result)
            check(result.out.endswith("a build would not work here\n"), result)
            tiny(folder)
            built = kpack("tiny.lua", cwd=folder, env={name: folder})
            same((built.status, built.err), (1, result.err), "the build says the same")


@test("nothing anywhere: what was looked at and the line that installs it")
def _():
    with Folder() as folder:
        result = hidden(folder, "doctor")
        same(result.status, 1, result)
        check(lines(result)["looked in"].startswith("/usr/local/cuda"), result)
        check("missing      NVRTC" in result.out and "nvidia-cuda-nvrtc==13.0.*" in result.out, result)
        check("no CUDA found" in result.err, result)
        tiny(folder)
        same(hidden(folder, "tiny.lua").status, 1)


@test("an NVRTC that cannot be opened is an error with its path")
def _():
    with Folder() as folder:
        write(f"{folder}/lib64/libnvrtc.so.13", "this is no library")
        write(f"{folder}/lib64/libnvrtc-builtins.so.13.0", "nor this")
        result = kpack("doctor", "--cuda", folder)
        same(result.status, 1, result)
        check(f"{folder}/lib64/libnvrtc.so.13" in result.err, result)


@test("KPACK_MEM is what doctor shows as memory")
def _():
    same(lines(kpack("doctor", "--cuda", FAKE, env={"KPACK_MEM": "3G"}))["memory"], "3.0 GiB")
    result = kpack("doctor", "--cuda", FAKE, env={"KPACK_MEM": "much"})
    check("KPACK_MEM" in lines(result)["memory"], result)


@test("a driver, or none: both are fine")
def _():
    for folder, expected in ((f"{ROOT}/out/fake", "libcuda.so.1 "), ("/nowhere", "none here")):
        result = kpack("doctor", "--cuda", FAKE, env={"LD_LIBRARY_PATH": folder})
        same(result.status, 0, result)
        check(lines(result)["driver"].startswith(expected), result)


main()
