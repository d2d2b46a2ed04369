#!/usr/bin/env python3
"""split and lto with a fake nvJitLink that fails on demand: every failure names its unit."""
import os
import shutil

from harness import Folder, ROOT, check, main, same, test, write
from project import CUBIN, World, entry, module, source, tiny

LINKER = os.path.join(ROOT, "out", "fake", "nvjitlink")
ALL = '"plain", "stack", "static_smem", k.entry "t3" { expression = "templated<3>" }'


def world(folder, more, *commands, linker="libnvJitLink.so.13", entries=ALL):
    """A module whose linking does as the commands say."""
    found = World(folder)
    if linker:
        shutil.copy(f"{LINKER}/{linker}", f"{found.cuda}/lib64/libnvJitLink.so.13")
    tiny(folder, module("m", entries, more))
    write(f"{folder}/ir.txt", "".join(f"link {c}\n" for c in commands))
    source(folder, "m", "fake lower _Z9templatedILi3EEvPf templated<3>", f"fake cubin {folder}/ir.txt")
    return found


def failing(more, commands, *said, entries=ALL, **how):
    with Folder() as folder:
        made = world(folder, more, *commands, entries=entries, **how)
        made.build("tiny.lua", "--no-cache", "--unit-timeout", "2", status=1)
        for words in said:
            check(words in made.result.err, words, made.result)
        check(not os.path.exists(f"{folder}/out/tiny.kpk"), "an image was written")
        return made.result


@test("a module is linked by the fake as by the real one")
def _():
    with Folder() as folder:
        made = world(folder, "lto = true,", f"cubin {CUBIN}")
        made.build()
        same(entry(folder, "stack")["name"], "stack")
        same(made.build(), [])


@test("a library that lacks a function, and one that is no library, are named")
def _():
    failing("lto = true,", [], "it has no function 'nvJitLinkGetLinkedPtx'", linker="old/libnvJitLink.so.13")
    with Folder() as folder:
        made = world(folder, "lto = true,")
        write(f"{made.cuda}/lib64/libnvJitLink.so.13", "no library")
        made.build("tiny.lua", status=1)
        check("'tiny/m' does not compile for sm_90a: cannot open nvJitLink" in made.result.err, made.result)


@test("an error comes with the linker's log, one without a log with its number")
def _():
    failing("lto = true,", ["error undefined reference to 'helper'"],
            "'tiny/m' does not compile for sm_90a: nvJitLink: undefined reference to 'helper'")
    failing("lto = true,", ["mute"], "nvJitLink failed with result 6")
    failing("lto = true,", ["refuse"], "nvJitLink failed with result 4")
    failing("lto = true,", ["empty"], "nvJitLink failed with result 0")


@test("a linked cubin that holds other kernels, or not the wanted one, is an error")
def _():
    failing("split = true,", [f"cubin {CUBIN}"], "'tiny/m:plain' also holds the kernel 'stack'", entries='"plain", "stack"')
    failing("lto = true,", [f"cubin {CUBIN}"], "has no entry 'absent'", entries='"plain", "absent"')
    failing("lto = true,", ["info fine"], "fine", "'tiny/m' is no usable cubin: it is shorter than an ELF header")


@test("a crash and a hang cost their unit alone")
def _():
    failing("lto = true,", ["crash"], "'tiny/m' was not compiled: its worker was killed by signal 11")
    failing("lto = true,", ["hang"], "'tiny/m' was not compiled: it took longer than the time limit of 2 s")
    with Folder() as folder:
        made = world(folder, "split = true,", "crash", entries='"plain", "stack"')
        made.build("tiny.lua", "-k", status=1)
        same(made.result.err.count("was killed by signal 11"), 3, made.result)  # two objects, and the look at the variables


main()
