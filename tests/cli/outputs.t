#!/usr/bin/env python3
"""What a slip of an output's name must not destroy."""
import os

from harness import Folder, check, kpack, main, read, same, test, write
from images import OTHER_CUBIN, describe, module
from project import Mounted, build, left_behind, tiny


def refused(result, folder, path, before, *words):
    same(result.status, 1, result)
    for word in words:
        check(word in result.err, f"no {word!r} in", result)
    same(read(f"{folder}/{path}"), before, path)
    same(left_behind(folder), [])


def kept(folder, path, words, *args):
    """A build with these arguments leaves `path` as it was."""
    before = read(f"{folder}/{path}")
    refused(build(folder, "tiny.lua", *args), folder, path, before, f"'{path}'", *words)


@test("-o on a source, on a description, beside a file that would be its sidecar")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/package.json", '{"name": "x"}\n')
        kept(folder, "kernels/m.cu", ("not an image", "remove it", "'.kpk'"), "-o", "kernels/m.cu")
        kept(folder, "tiny.lua", ("not an image",), "-o", "tiny.lua")
        kept(folder, "package.json", ("sidecar",), "-o", "package")
        check(not os.path.exists(f"{folder}/package"), "the image was written all the same")


@test("images, sidecars and empty files are replaced, under whatever name")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/image", "")
        for _ in range(2):
            same(build(folder, "tiny.lua", "--no-cache", "-o", "image").status, 0)
        write(f"{folder}/broken.kpk", "no image any more")
        write(f"{folder}/broken.kpk.json", "nor a sidecar")
        same(build(folder, "tiny.lua", "-o", "broken.kpk").status, 0)
        same(kpack("verify", "broken.kpk", cwd=folder).status, 0)


@test("two outputs of one name, however it is written")
def _():
    with Folder() as folder:
        tiny(folder)
        os.symlink(".", f"{folder}/here")
        for name, other in (("s.kpk", "s.kpk"), ("s.kpk", "here/s.kpk.json"), ("s.kpk", "./s.kpk")):
            for option in ("--depfile", "--compile-commands", "--timings"):
                result = build(folder, "tiny.lua", "-o", name, option, other)
                same(result.status, 1, result)
                check("written twice" in result.err, result)
                check(not os.path.exists(f"{folder}/s.kpk"), option)
        result = build(folder, "tiny.lua", "--depfile", "d", "--timings", "d")
        check(result.status == 1 and "written twice" in result.err, result)


@test("a depfile, a database or a trace on what the build reads")
def _():
    with Folder() as folder:
        tiny(folder)
        kept(folder, "tiny.lua", ("the build reads it",), "--depfile", "tiny.lua")
        kept(folder, "kernels/m.cu", ("the build reads it",), "--depfile", "kernels/m.cu")
        kept(folder, "kernels/m.cu", ("compilation database",), "--compile-commands", "kernels/m.cu")
        kept(folder, "kernels/m.cu", ("a trace",), "--timings", "kernels/m.cu")
        for option, name in (("--depfile", "deps"), ("--compile-commands", "commands"), ("--timings", "trace")):
            for _ in range(2):
                result = build(folder, "tiny.lua", "--no-cache", option, name)
                same(result.status, 0, result)


@test("extract and header on a source")
def _():
    with Folder() as folder:
        tiny(folder)
        same(build(folder).status, 0)
        before = read(f"{folder}/kernels/m.cu")
        result = kpack("extract", "out/tiny.kpk", "m", "-o", "kernels/m.cu", cwd=folder)
        refused(result, folder, "kernels/m.cu", before, "not a cubin")
        result = kpack("header", "tiny.lua", "-o", "kernels/m.cu", cwd=folder)
        refused(result, folder, "kernels/m.cu", before, "made by kpack")
        for _ in range(2):
            same(kpack("extract", "out/tiny.kpk", "m", "-o", "code", cwd=folder).status, 0)
            same(kpack("header", "tiny.lua", "-o", "tiny.h", cwd=folder).status, 0)


@test("a full disk, and a read-only one, is an error of every command that writes, and nothing is left or lost")
def _():
    with Folder() as folder:
        tiny(folder)
        describe(folder, "one", target="one", modules=[module("m", entries=["plain"])])
        describe(folder, "two", target="two", arch="sm_80", modules=[module("m", OTHER_CUBIN, ["plain"])])
        commands = {"a.kpk": ("bundle", "one.kpk", "two.kpk"), "b.kpk": ("extract", "--target=one", "one.kpk"), "m.cubin": ("extract", "one.kpk", "m"),
                    "e.o": ("embed", "one.kpk"), "r.html": ("report", "one.kpk"), "h.h": ("header", "tiny.lua")}
        with Mounted(f"{folder}/out", "size=64k") as mounted:
            for name in commands:
                write(f"{folder}/out/{name}", "")
            mounted.fill()
            for name, words in commands.items():
                for way, said in (("rw", "No space left on device"), ("ro", "Read-only file system")):
                    mounted.remount(way)
                    result = kpack(words[0], "-o", f"out/{name}", *words[1:], cwd=folder)
                    same((result.status, result.out), (1, ""), name, result)
                    check(said in result.err and name in result.err, name, result)
                    same((read(f"{folder}/out/{name}"), left_behind(folder)), (b"", []), name)


main()
