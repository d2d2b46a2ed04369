#!/usr/bin/env python3
"""embed: what it says, and what it will not read or write. Linking is in tests/embed/linked.t."""
import os

from harness import Folder, check, golden, kpack, main, read, same, test, write
from images import DAMAGE, damage, describe, module


def run(folder, *args):
    return kpack(*args, cwd=folder)


@test("embed prints the declarations of what it wrote")
def _():
    with Folder() as folder:
        describe(folder, "a-b.2", modules=[module("m", entries=["plain"])])
        golden("embed.txt", run(folder, "embed", "--machine=x86-64", "-o", "x.o", "a-b.2.kpk"))
        before = read(f"{folder}/x.o")
        check(read(f"{folder}/a-b.2.kpk") in before, "the image's bytes are not in the object")
        same(run(folder, "embed", "--machine=x86-64", "-o", "y.o", "a-b.2.kpk").status, 0)
        same(read(f"{folder}/y.o"), before)


@test("a name as long as a file's may be is printed whole")
def _():
    with Folder() as folder:
        name = "n" * 200
        describe(folder, "a", modules=[module("m", entries=["plain"])])
        os.rename(f"{folder}/a.kpk", f"{folder}/{name}.kpk")
        result = run(folder, "embed", "-o", "x.o", f"{name}.kpk")
        same(result.out.splitlines()[1:], [f"extern const unsigned char kpk_image_{name}[];",
                                           f"extern const size_t kpk_image_{name}_size;"])


@test("objects and empty files are replaced, nothing else, and never the image")
def _():
    with Folder() as folder:
        describe(folder, "a", modules=[module("m", entries=["plain"])])
        write(f"{folder}/old.o", "anything")
        write(f"{folder}/empty", "")
        for name in ("old.o", "empty"):
            same(run(folder, "embed", "-o", name, "a.kpk").status, 0)
        program = b"\177ELF\2\1\1 a program begins as an object does"
        write(f"{folder}/engine", program)
        result = run(folder, "embed", "-o", "engine", "a.kpk")
        same((result.status, read(f"{folder}/engine")), (1, program))
        check("will not replace 'engine': it is not an object file" in result.err, result)
        image = read(f"{folder}/a.kpk")
        os.link(f"{folder}/a.kpk", f"{folder}/a.o")
        for path in ("a.o", "a.kpk"):
            result = run(folder, "embed", "-o", path, "a.kpk")
            same((result.status, result.out), (1, ""))
            check("is the image itself" in result.err, result)
            same(read(f"{folder}/{path}"), image)
        result = run(folder, "embed", "-o", "no/such/x.o", "a.kpk")
        check(result.status == 1 and "'no/such/x.o'" in result.err, result)


@test("a bundle is embedded as an image is, all of its parts checked")
def _():
    with Folder() as folder:
        for name, arch in (("a", "sm_90a"), ("b", "sm_100f")):
            describe(folder, name, target=name, arch=arch, modules=[module("m", entries=["plain"])])
        same(run(folder, "bundle", "a.kpk", "b.kpk", "-o", "all.kpk").status, 0)
        result = run(folder, "embed", "-o", "x.o", "all.kpk")
        same(result.status, 0, result)
        good = read(f"{folder}/all.kpk")
        check(good in read(f"{folder}/x.o"), "the bundle's bytes are not in the object")
        os.remove(f"{folder}/x.o")
        for at, said in ((-5, "all.kpk[b]: "), (4095, "all.kpk: bytes between its parts are not zero")):
            bytes_ = bytearray(good)
            bytes_[at] ^= 1
            write(f"{folder}/all.kpk", bytes_)
            result = run(folder, "embed", "-o", "x.o", "all.kpk")
            same((result.status, result.out, os.path.exists(f"{folder}/x.o")), (1, "", False))
            check(said in result.err, result)


@test("what is no whole image is not embedded")
def _():
    with Folder() as folder:
        describe(folder, "good", modules=[module("m", entries=["plain"])])
        damage(folder, "good.kpk")
        bytes_ = bytearray(read(f"{folder}/good.kpk"))
        bytes_[-5] ^= 1  # in the last group, which an open does not read
        write(f"{folder}/group.kpk", bytes_)
        for name in (*DAMAGE, "group"):
            result = run(folder, "embed", "-o", "x.o", f"{name}.kpk")
            same((result.status, result.out), (1, ""), name)
            check(f"{name}.kpk" in result.err, name, result)
            check(not os.path.exists(f"{folder}/x.o"), name)


main()
