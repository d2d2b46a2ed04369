#!/usr/bin/env python3
"""Why a unit would be compiled (explain, -n), and what others learn from a build (--depfile, --compile-commands)."""
import json
import os
import shlex
import shutil
import subprocess

from harness import Folder, Skip, binary, cache_folder, check, environment, kpack, main, read, same, test, write
from project import CUBIN, GOOD, World, build, module, source, target, tiny


def explain(world, *words, description="tiny.lua"):
    result = kpack("explain", description, "--cuda", world.cuda, *words, cwd=world.folder)
    same(result.status, 0, result)
    return result.out.splitlines()


def dry(world, *args):
    result = build(world.folder, "tiny.lua", "-n", *args, fake=world.cuda)
    same((result.status, result.err), (0, ""), result)
    return result.out.split()


@test("explain names the first thing that differs, and -n the units that are then compiled")
def _():
    with Folder() as folder:
        def describe(more="", arch="sm_90a"):
            write(f"{folder}/tiny.lua", target([module("m", more=more), module("n")], arch=arch))

        tiny(folder, module("m"), module("n"))
        write(f"{folder}/kernels/a.h", "a")
        os.makedirs(f"{folder}/inc")
        source(folder, "m", "fake open kernels/b.h", "fake open kernels/a.h", GOOD)
        source(folder, "n", "// n", GOOD)
        world = World(folder)
        same(explain(world), ["tiny/m: no compile of it is known", "tiny/n: no compile of it is known"])
        same(dry(world), ["tiny/m", "tiny/n"])
        check(not os.path.exists(f"{folder}/out"))
        world.build()
        same(explain(world), ["tiny/m: hit", "tiny/n: hit"])
        same(dry(world), [])
        kernels = f"{folder}/kernels"
        for change, said in (
                (lambda: describe("flags = { '-DX' },"), "flag '-DX' is new"),
                (lambda: describe("flags = { '-DY' },"), "flag '-DY' was '-DX'"),
                (lambda: describe("tile = { N = 1 },"), "constant 'N' is new"),
                (lambda: describe("tile = { N = 2 },"), "constant 'N' is 2, was 1"),
                (lambda: describe("includes = { 'inc' },"), "include folder 'inc' is new"),
                (describe, "hit"),
                (lambda: describe("flags = { '-DX', '-DZ' },"), "flag '-DX' is new"),
                (lambda: write(f"{kernels}/a.h", "A"), "header 'kernels/a.h' has changed"),
                (lambda: os.remove(f"{kernels}/a.h"), "header 'kernels/a.h' is gone now"),
                (lambda: os.mkdir(f"{kernels}/a.h"), "file 'kernels/a.h' is a folder now"),
                (lambda: (os.rmdir(f"{kernels}/a.h"), write(f"{kernels}/a.h", "3")),
                 "file 'kernels/a.h', looked for in vain before, is there now"),
                (lambda: write(f"{kernels}/b.h", "b"), "file 'kernels/b.h', looked for in vain before, is there now"),
                (lambda: source(folder, "m", "// new", GOOD), "source 'kernels/m.cu' has changed")):
            change()
            line, other = explain(world)
            same((line, other), (f"tiny/m: {said}", "tiny/n: hit"))
            units = [] if said == "hit" else ["m"]
            same(dry(world), [f"tiny/{u}" for u in units], said)
            same(world.build(), units, said)
            same(explain(world, "m"), ["tiny/m: hit"])
        describe(arch="sm_80")
        same(explain(world, "n"), ["tiny/n: arch 'sm_80' was 'sm_90a'"])
        same(dry(world), ["tiny/m", "tiny/n"])
        world.build()
        for where, _, names in os.walk(cache_folder()):
            for name in names:
                if name.endswith("-r"):
                    os.remove(os.path.join(where, name))
        same(explain(world, "n"), ["tiny/n: its result is no longer in the cache"])
        shutil.rmtree(f"{folder}/out")
        same(dry(world, "--no-cache"), ["tiny/m", "tiny/n"])


@test("a flag that goes, another NVRTC, a module that is not there")
def _():
    with Folder() as folder:
        tiny(folder, module("m", more="flags = { '-DX', '-DY' },"))
        world = World(folder)
        world.build()
        tiny(folder, module("m", more="flags = { '-DX' },"))
        same(explain(world), ["tiny/m: flag '-DY' is gone"])
        world.build()
        path = f"{world.cuda}/lib64/libnvrtc.so.13"
        library = read(path)
        at = library.index(b"GNU\0", library.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0")) + 4
        write(path, library[:at] + bytes([library[at] ^ 1]) + library[at + 1:])
        same(explain(world), ["tiny/m: it was compiled by another NVRTC"])
        result = kpack("explain", "tiny.lua", "n", "--cuda", world.cuda, cwd=folder)
        same((result.status, result.out), (1, ""), result)
        check("target 'tiny' has no module 'n'" in result.err, result)


@test("explain and -n without a cache folder make none")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        same(explain(world, "--cache", "none"), ["tiny/m: no compile of it is known"])
        check(not os.path.exists(f"{folder}/none"))


def odd_project(folder):
    """Names that make must have escaped."""
    tiny(folder, module("m"), module("n"))
    odd = ["a b.h", "c#d.h", "e$f.h", "g:h.h", "i\\j.h", "k\\ l.h", "m%n.h"]
    for name in odd:
        write(f"{folder}/kernels/{name}", name)
    source(folder, "m", *(f"fake open kernels/{name}" for name in odd), f"fake open {CUBIN}", GOOD)
    source(folder, "n", "fake open kernels/a b.h", "fake open <kpack>/math.h", GOOD)
    return odd


@test("--depfile: make rebuilds when a file in it is newer, and only then")
def _():
    if not shutil.which("make"):
        raise Skip("make is not installed")
    with Folder() as folder:
        odd = odd_project(folder)
        world = World(folder)
        write(f"{folder}/Makefile", "out/tiny.kpk:\n\t@echo building\n-include tiny.d\n")

        def outdated():
            done = subprocess.run(["make", "-s"], cwd=folder, stdout=subprocess.PIPE, env=environment(), check=True)
            return done.stdout.decode() == "building\n"

        world.build("tiny.lua", "--depfile", "tiny.d")
        same(read(f"{folder}/tiny.d").split(b":", 1)[0], b"out/tiny.kpk")
        for where, _, names in os.walk(folder):
            for name in names:
                os.utime(os.path.join(where, name), (10**9, 10**9))
        os.utime(CUBIN, (10**9, 10**9))
        check(not outdated())
        for name in ("tiny.lua", "kernels/m.cu", "kernels/n.cu", *(f"kernels/{name}" for name in odd)):
            if name == "kernels/m%n.h" or "\\" in name:
                continue  # make has no way to write these for all its uses
            os.utime(f"{folder}/{name}")
            check(outdated(), name)
            os.utime(f"{folder}/{name}", (10**9, 10**9))
        write(f"{folder}/kernels/other.h", "not read")
        check(not outdated())
        os.remove(f"{folder}/kernels/a b.h")
        check(outdated(), "a header that is gone")


@test("--depfile: ninja takes it, and has nothing to do after a build")
def _():
    if not shutil.which("ninja"):
        raise Skip("ninja is not installed")
    with Folder() as folder:
        odd_project(folder)
        world = World(folder)
        write(f"{folder}/build.ninja",
              f"rule kpack\n  command = {shlex.quote(binary())} -q --cuda {shlex.quote(world.cuda)} $in --depfile $out.d && "
              "touch $out\n  depfile = $out.d\n  deps = gcc\nbuild out/tiny.kpk: kpack tiny.lua\n")

        def ninja():
            done = subprocess.run(["ninja", "-d", "explain"], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=environment(), check=False)
            same(done.returncode, 0, done.stdout.decode())
            return "no work to do" not in done.stdout.decode()

        check(ninja())
        check(not ninja())
        write(f"{folder}/kernels/a b.h", "new")
        check(ninja())
        check(not ninja())
        write(f"{folder}/kernels/e$f.h", "new")
        check(ninja())
        check(not ninja())


@test("--depfile and --compile-commands are written again when they are gone, and are errors where they cannot be")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        args = ("tiny.lua", "--depfile", "t.d", "--compile-commands", "c.json")
        same(world.build(*args), ["m"])
        for name in ("t.d", "c.json"):
            old = read(f"{folder}/{name}")
            os.remove(f"{folder}/{name}")
            same(world.build(*args), [])
            same(read(f"{folder}/{name}"), old)
        for option in ("--depfile", "--compile-commands"):
            world.build("tiny.lua", option, "missing/file", status=1)
            check("missing/file" in world.result.err, world.result)


@test("--depfile: a name with a line end is an error")
def _():
    with Folder("new\nline") as folder:
        tiny(folder)
        result = build(os.path.dirname(folder), "new\nline/tiny.lua", "--depfile", "t.d")
        same(result.status, 1, result)
        check("it has a line end" in result.err, result)


@test("--compile-commands in a folder whose name JSON cannot hold is an error before anything is compiled")
def _():
    with Folder("\udcff") as folder:
        world = World(folder)
        tiny(folder)
        same(world.build("tiny.lua", "--compile-commands", "c.json", status=1), [])
        check("cannot write 'c.json': the project's folder has a name that is no UTF-8" in world.result.err, world.result)
        same((os.path.exists(f"{folder}/c.json"), world.build()), (False, ["m"]))


@test("--compile-commands: what clang takes, with the constants and folders of each unit")
def _():
    with Folder() as folder:
        tiny(folder, module("m", 'k.entry "plain" { block = 64 }', "tile = { N = 4 }, flags = { '-DX', '--fmad=false' },"
                            " includes = { 'inc' },"), arch="sm_80")
        os.makedirs(f"{folder}/inc")
        write(f"{folder}/inc/h.h", "static const int four = N;\n")
        source(folder, "m", '#include "h.h"',
               '#if !defined X || KPK_BLOCK_plain != 64', '#error "macros"', '#endif',
               'extern "C" __attribute__((global)) void plain(int *out) { *out = four; }', f"// {GOOD}")
        source(folder, "m", '#include "h.h"\n#if !defined X || KPK_BLOCK_plain != 64\n#error "macros"\n#endif\n'
               'extern "C" __attribute__((global)) void plain(int *out) { *out = four; }\n/*\n' + GOOD + "\n*/")
        world = World(folder)
        world.build("tiny.lua", "--compile-commands", "compile_commands.json")
        entry, = json.loads(read(f"{folder}/compile_commands.json"))
        same((entry["directory"], entry["file"]), (os.path.realpath(folder), "kernels/m.cu"))
        check("--fmad=false" not in entry["arguments"], entry)
        if not shutil.which("clang++"):
            raise Skip("clang++ is not installed")
        done = subprocess.run([*entry["arguments"], "-nocudainc", "-nocudalib"], cwd=entry["directory"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        same((done.returncode, done.stdout), (0, b""))


main()
