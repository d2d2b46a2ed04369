#!/usr/bin/env python3
"""Every row of the fault table in src/compile/README.md is provoked, and does what its row says."""
import os
import re
import signal

from harness import ROOT, Folder, Skip, check, kpack, main, read, same, test, unprivileged, write
from project import GOOD, Started, build, module, source, target, tiny

KERNEL = '#include "h.cuh"\nextern "C" __global__ void plain(float *x) { *x = H; }\n'
ROW = re.compile(r"^\| (.+?) \| (builds|fails) \|(?: `(.+?)`)? \|$", re.M)
provokes = {}


def fault(name):
    def add(function):
        provokes[name] = function
        return function
    return add


def rows():
    return ROW.findall(read(f"{ROOT}/src/compile/README.md").decode())


def with_header(folder, make, **more):
    """The real NVRTC reads a header that `make` has spoiled."""
    if kpack("doctor").status:
        raise Skip("doctor finds no usable NVRTC")
    tiny(folder, module("m"))
    source(folder, "m", KERNEL)
    write(f"{folder}/kernels/h.cuh", "#define H 1\n")
    make(f"{folder}/kernels/h.cuh")
    return kpack("tiny.lua", "--no-cache", "-o", "tiny.kpk", cwd=folder, **more)


def replaced(make):
    def do(path):
        os.remove(path)
        make(path)
    return lambda folder: with_header(folder, do)


fault("a header deleted")(lambda folder: with_header(folder, os.remove))
fault("a folder in a header's place")(replaced(os.mkdir))
fault("a header that is a loop of links")(replaced(lambda path: os.symlink("h.cuh", path)))
fault("a FIFO in a header's place")(replaced(os.mkfifo))


@fault("a header made unreadable")
def _(folder):
    who = unprivileged()
    os.chmod(folder, 0o777)
    return with_header(folder, lambda path: os.chmod(path, 0), **who)


@fault("an include folder that does not exist")
def _(folder):
    tiny(folder, module("m", more='includes = { "no/such" },'))
    return build(folder)


@fault("one source in two modules, with different constants")
def _(folder):
    two = [f'k.module "m{i}" {{ source = "kernels/m.cu", tile = {{ N = {i} }}, entries = {{ "plain" }} }}' for i in (1, 2)]
    source(folder, "m", GOOD)
    write(f"{folder}/tiny.lua", target(two))
    return build(folder)


@fault("a source of 50 MB")
def _(folder):
    if kpack("doctor").status:
        raise Skip("doctor finds no usable NVRTC")
    tiny(folder, module("m"))
    source(folder, "m", KERNEL.replace('#include "h.cuh"\n', "").replace("H", "1") + ("//" + " " * 1021 + "\n") * 51200)
    return build(folder, fake=None)


@fault("a source with a NUL byte")
def _(folder):
    tiny(folder)
    source(folder, "m", "// 12\0")
    return build(folder)


@fault("NVRTC out of memory")
def _(folder):
    tiny(folder, commands=("fake result 1",))
    return build(folder)


def signalled(number, *more):
    def run(folder):
        tiny(folder, commands=("fake hang",))
        started = Started(folder, "tiny.lua", "--unit-timeout", "2", *more)
        try:
            started.wait_for_workers()
            os.kill(started.workers()[0], number)
            status, out, err = started.end()
        finally:
            started.kill()
        return type("Ended", (), {"status": status, "out": out, "err": err})
    return run


fault("a worker killed")(signalled(signal.SIGKILL))
fault("a worker that crashes")(lambda folder: (tiny(folder, commands=("fake crash",)), build(folder))[1])
fault("a worker stopped, or one that hangs")(signalled(signal.SIGSTOP))


@fault("a worker that takes all memory")
def _(folder):
    tiny(folder, commands=("fake eat-forever",))
    return build(folder, env={"KPACK_MEM": "300M"})


@fault("a worker that writes noise")
def _(folder):
    tiny(folder, commands=("fake garbage",))
    return build(folder)


@fault("a CUDA folder without NVRTC")
def _(folder):
    tiny(folder)
    return build(folder, fake=folder)


@test("the table names every fault that is provoked here, and no other")
def _():
    same(sorted(row[0] for row in rows()), sorted(provokes))


def held(name, does, said):
    @test(f"{name}: {does}")
    def _():
        with Folder() as folder:
            result = provokes[name](folder)
            same(result.status, int(does == "fails"), result)
            check(said in result.err if said else not result.err.count("error:"), said, result.err)
            check(does == "builds" or not any(n.endswith(".kpk") for _, _, names in os.walk(folder) for n in names))


for row in rows():
    if row[0] in provokes:
        held(*row)
main()
