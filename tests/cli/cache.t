#!/usr/bin/env python3
"""The cache of compiled units with a fake NVRTC that counts its compiles."""
import glob
import json
import os
import shutil
import subprocess
import time

from harness import Folder, Skip, cache_folder, check, kpack, main, read, same, test, unprivileged, write
from project import GOOD, World, listing, module, source, target, tiny


def header(folder, name, text):
    return write(f"{folder}/kernels/{name}", text)


def two(folder):
    """m reads a.h and b.h, n reads b.h; c.h is looked for and not there."""
    tiny(folder, module("m"), module("n"))
    header(folder, "a.h", "a")
    header(folder, "b.h", "b")
    source(folder, "m", "fake open kernels/a.h", "fake open kernels/b.h", GOOD)
    source(folder, "n", "fake open kernels/c.h", "fake open kernels/b.h", GOOD)


@test("what was compiled is not compiled again")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        same(world.build(), ["m", "n"])
        check("cache" not in world.result.out, world.result)
        image = read(f"{folder}/out/tiny.kpk")
        shutil.rmtree(f"{folder}/out")
        same(world.build(), [])
        check("2 of 2 units in 0." in world.result.out and "2 from the cache" in world.result.out, world.result)
        same(read(f"{folder}/out/tiny.kpk"), image)


@test("an edit compiles the units that read the file, and no other; undone, none")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        for name, text, units in (("a.h", "A", ["m"]), ("b.h", "B", ["m", "n"]), ("a.h", "a", ["m"]),
                                  ("b.h", "b", []), ("a.h", "A", []), ("d.h", "d", [])):
            header(folder, name, text)
            same(world.build(), units, name, text)
            same(world.build(), [], name, text)


def same_size(path, text):
    """Other bytes, as many, and the old times as far as a user can set them."""
    info = os.stat(path)
    same(len(text), info.st_size)
    with open(path, "r+", encoding="ascii") as file:
        file.write(text)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def age(*folders):
    """Makes all files old enough for their stamps to be trusted."""
    for top in folders:
        for where, _, names in os.walk(top):
            for name in names:
                os.utime(os.path.join(where, name), ns=(10**18, 10**18))


@test("other bytes of the same size with the old time are seen: source, header, description")
def _():
    with Folder() as folder:
        two(folder)
        age(folder)
        world = World(folder)
        world.build()
        same(world.build(), [])
        same_size(f"{folder}/kernels/a.h", "A")
        same(world.build(), ["m"])
        same_size(f"{folder}/kernels/n.cu", read(f"{folder}/kernels/n.cu").decode().replace("c.h", "d.h"))
        same(world.build(), ["n"])
        same_size(f"{folder}/tiny.lua", read(f"{folder}/tiny.lua").decode().replace('"plain"', '"stack"'))
        same(world.build(), [])
        same([m["entries"][0]["name"] for m in listing(folder)["modules"]], ["stack", "stack"])


@test("a file that appears where one was looked for counts; so does one that goes")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        header(folder, "c.h", "c")
        same(world.build(), ["n"])
        os.remove(f"{folder}/kernels/c.h")
        same(world.build(), [])
        for make, units in ((os.mkfifo, ["n"]), (os.mkdir, ["n"]), (lambda path: os.symlink("c.h", path), [])):
            make(f"{folder}/kernels/c.h")
            same(world.build(), units)  # a link to itself is as unreadable as the FIFO
            same(world.build(), [])
            (os.rmdir if make is os.mkdir else os.remove)(f"{folder}/kernels/c.h")
            same(world.build(), [])
        os.remove(f"{folder}/kernels/a.h")
        same(world.build(), ["m"])


@test("a header that becomes unreadable is compiled without, and found again when it is back")
def _():
    who = unprivileged()
    with Folder() as folder:
        two(folder)
        world = World(folder)
        for path in (folder, f"{folder}/kernels"):
            os.chmod(path, 0o777)
        os.chmod(world.count, 0o666)
        same(world.build(**who), ["m", "n"])
        os.chmod(f"{folder}/kernels/a.h", 0)
        same(world.build(**who), ["m"])
        same(world.build(**who), [])
        os.chmod(f"{folder}/kernels/a.h", 0o644)
        same(world.build(**who), [])


@test("files from the future, as after a clock that went back, are read again and found the same")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        for where, _, names in os.walk(folder):
            for name in names:
                os.utime(os.path.join(where, name), ns=(3 * 10**18, 3 * 10**18))
        image = os.stat(f"{folder}/out/tiny.kpk")
        same(world.build(), [])
        same_size(f"{folder}/kernels/b.h", "B")
        same(world.build(), ["m", "n"])
        same(os.stat(f"{folder}/out/tiny.kpk").st_mtime_ns, image.st_mtime_ns)


@test("flags, constants, arch and include folders count; names of modules and comments in descriptions do not")
def _():
    with Folder() as folder:
        tiny(folder, module("m"))
        os.makedirs(f"{folder}/inc")
        world = World(folder)
        same(world.build(), ["m"])
        for more, target_more, units in (("flags = { '-DX' },", "", ["m"]), ("tile = { N = 1 },", "", ["m"]),
                                         ("tile = { N = 2 },", "", ["m"]), ("", "arch = 'sm_80',", ["m"]),
                                         ("", "includes = { 'inc' },", ["m"]), ("", "-- a comment\n", [])):
            text = target([module("m", more=more)], more=target_more)
            write(f"{folder}/tiny.lua", text.replace('arch = "sm_90a", arch', "arch"))
            same(world.build(), units, more, target_more)
            same(world.build(), [], more, target_more)
        write(f"{folder}/tiny.lua", target([module("m").replace('module "m"', 'module "o"')]))
        same(world.build(), [])


@test("one source with two sets of constants is two units")
def _():
    with Folder() as folder:
        both = [module("m", more="tile = { N = 1 },"), module("m", more="tile = { N = 2 },").replace('e "m"', 'e "n"')]
        tiny(folder, both[0])
        write(f"{folder}/tiny.lua", target(both))
        source(folder, "m", "// the options are the cubin's text")
        write(f"{folder}/tiny.lua", target([m.replace('{ "plain" }', "k.every") for m in both]))
        world = World(folder)
        same(world.build(status=1), ["m", "m"])
        source(folder, "m", GOOD)
        same(world.build(), ["m", "m"])
        same(world.build(), [])


@test("a moved checkout, and another one, find the same results")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        image = read(f"{folder}/out/tiny.kpk")
        with Folder("elsewhere, with spaces") as other:
            shutil.copytree(folder, other, dirs_exist_ok=True)
            shutil.rmtree(f"{other}/out")
            world.folder = other
            same(world.build(), [])
            same(read(f"{other}/out/tiny.kpk"), image)


@test("another NVRTC compiles all; the same one elsewhere, or with another time, nothing")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        os.utime(f"{world.cuda}/lib64/libnvrtc.so.13", (1, 1))
        same(world.build(), [])
        os.rename(world.cuda, world.cuda + "-2")
        world = World(folder)
        same(world.build(), [])
        for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0"):
            path = f"{world.cuda}/lib64/{name}"
            library = read(path)
            at = library.index(b"GNU\0", library.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0")) + 4
            write(path, library[:at] + bytes([library[at] ^ 1]) + library[at + 1:])
            same(world.build(), ["m", "n"], name)
            same(world.build(), [], name)


@test("what the description reads and looks for counts")
def _():
    with Folder() as folder:
        world = World(folder)
        for name in ("a", "b", "c"):
            source(folder, name, GOOD)
        write(f"{folder}/targets/parts.lua", "return { 'kernels/*.cu' }")
        write(f"{folder}/targets/base.lua",
              'local k = require "kpack"\nreturn k.target { name = "base", arch = "sm_80", modules = {\n'
              ' k.module "shared" { source = "shared.cu", entries = { "plain" } } } }\n')
        write(f"{folder}/targets/tiny.lua",
              'local k = require "kpack"\nlocal parts = require "parts"\nreturn k.target { name = "tiny",'
              ' arch = "sm_90a", inherits = "base", modules = { k.glob(parts[1]) } }\n')
        write(f"{folder}/kernels/common/shared.cu", f"// 1\n{GOOD}\n")

        def built(*units):
            same(world.build("targets/tiny.lua"), list(units))
            same(world.build("targets/tiny.lua"), [])
            return [m["name"] for m in listing(folder)["modules"]]

        same(built("a", "b", "c", "shared"), ["a", "b", "c", "shared"])
        source(folder, "d", GOOD)
        same(built("d"), ["a", "b", "c", "d", "shared"])
        os.remove(f"{folder}/kernels/a.cu")
        same(built(), ["b", "c", "d", "shared"])
        write(f"{folder}/lua/parts.lua", "return { 'kernels/b*.cu' }")
        same(built(), ["b", "shared"])
        write(f"{folder}/kernels/base/common/shared.cu", f"// 2\n{GOOD}\n")
        same(built("b", "shared"), ["b", "shared"])  # the folder is a new include folder, too


@test("an image or sidecar that was changed or removed is written again")
def _():
    with Folder() as folder:
        two(folder)
        age(folder)
        world = World(folder)
        world.build()
        for name in ("tiny.kpk", "tiny.kpk.json"):
            path = f"{folder}/out/{name}"
            good = read(path)
            os.remove(path)
            same(world.build(), [])
            same(read(path), good)
            info = os.stat(path)
            write(path, good[:-2] + bytes([good[-2] ^ 1]) + good[-1:])
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
            same(world.build(), [])
            same(read(path), good)


@test("with nothing changed the record alone decides, and says the same")
def _():
    with Folder() as folder:
        two(folder)
        source(folder, "m", "fake log kernels/m.cu(1): warning #177-D: unused", GOOD)
        world = World(folder)
        world.build()
        first = world.result
        for where, _, names in os.walk(cache_folder()):
            for name in names:
                if not name.endswith("-b"):
                    os.remove(os.path.join(where, name))
        image = os.stat(f"{folder}/out/tiny.kpk").st_mtime_ns
        same(world.build(), [])
        same(os.stat(f"{folder}/out/tiny.kpk").st_mtime_ns, image)
        same(world.result.out.splitlines()[0], first.out.splitlines()[0] + ", unchanged")
        same([line for line in world.result.err.splitlines() if "warning" in line],
             [line for line in first.err.splitlines() if "warning" in line])
        same(len([line for line in first.err.splitlines() if "warning" in line]), 1)
        same(world.build("tiny.lua", "-q"), [])
        same(world.result.out, "")
        same(world.build("tiny.lua", "--out", "more"), ["m", "n"])


@test("a commit shows in the sidecar of a build that has nothing else to do")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.com"]
        write(f"{folder}/.gitignore", "out\n")
        subprocess.run([*git, "init", "-q"], check=True)
        seen = set()
        for number in range(3):
            write(f"{folder}/notes", str(number))
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-qm", str(number)], check=True)
            same(world.build(), [] if number else ["m", "n"])
            same(world.build(), [])
            head = subprocess.run([*git, "rev-parse", "HEAD"], stdout=subprocess.PIPE, check=True)
            data = json.loads(read(f"{folder}/out/tiny.kpk.json"))
            same((data["commit"], data["dirty"]), (head.stdout.decode().strip(), False))
            seen.add(data["commit"])
        same(len(seen), 3)


@test("an NVRTC whose reading cannot be watched: what the text may include counts, and -v says so once")
def _():
    with Folder() as folder:
        world = World(folder)
        tiny(folder, module("a"), module("b"), module("c"))
        for name, text in (("a", '#include "one.cuh"'), ("b", "#if 0\n#include <one.cuh>\n#endif"), ("c", "#include MACRO")):
            source(folder, name, "fake blind", text, GOOD)
        write(f"{folder}/kernels/one.cuh", '#include "two.cuh"\n')
        write(f"{folder}/kernels/two.cuh", "\n")
        every = sorted(["a", "b", "c"] * 2)  # each compiles again, with real folders
        same(world.build("tiny.lua", "-v"), every)
        same(world.result.err.count("cannot be watched"), 1, world.result)
        same(world.build(), ["c", "c"])  # what names a macro is not kept
        check("cannot be watched" not in world.result.err, world.result)
        write(f"{folder}/kernels/two.cuh", "// a comment\n")
        same(world.build(), ["a", "a", "c", "c"])
        write(f"{folder}/one.cuh", "\n")  # <one.cuh> has no folder to be found in
        same(world.build(), ["c", "c"])


def clock(when):
    """The environment of a process whose clock starts there; files keep their real times."""
    libraries = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if not libraries:
        raise Skip("faketime is not installed (.ci/setup test installs it)")
    return {"LD_PRELOAD": libraries[0], "FAKETIME": f"@{when}", "NO_FAKE_STAT": "1",
            "ASAN_OPTIONS": "verify_asan_link_order=0"}  # the sanitizer's library wants to be first


@test("a clock that jumps back and forth between builds: nothing stale, nothing extra, the same bytes")
def _():
    with Folder() as folder:
        world = World(folder)
        tiny(folder, module("m"), module("n"))
        header(folder, "a.h", "a")
        source(folder, "m", "fake open kernels/a.h", GOOD)
        same(world.build(env=clock("2031-05-06 07:08:09")), ["m", "n"])
        image, stamp = read(f"{folder}/out/tiny.kpk"), os.stat(f"{folder}/out/tiny.kpk").st_mtime_ns
        for number, when in enumerate(("2001-02-03 04:05:06", "2045-01-01 00:00:00", "1999-12-31 23:59:59", None, "2031-01-01 00:00:00")):
            env = clock(when) if when else None
            same(world.build(env=env), [], when)
            times = os.stat(f"{folder}/kernels/a.h")
            header(folder, "a.h", chr(ord("b") + number))  # as long as before
            os.utime(f"{folder}/kernels/a.h", ns=(times.st_atime_ns, times.st_mtime_ns))
            same(world.build(env=env), ["m"], when)
            same((read(f"{folder}/out/tiny.kpk"), os.stat(f"{folder}/out/tiny.kpk").st_mtime_ns), (image, stamp), when)
        same(world.build("tiny.lua", "--no-cache", "-o", "other.kpk", env=clock("2001-02-03 04:05:06")), ["m", "n"])
        same(read(f"{folder}/other.kpk"), image)


@test("what the last build stands on is trimmed last, though that build did nothing")
def _():
    with Folder() as folder:
        world = World(folder)
        tiny(folder, module("m"))
        same(world.build(), ["m"])
        with Folder("other") as other:
            elsewhere = World(other)
            tiny(other, module("x", more="tile = { N = 1 },"))
            same(elsewhere.build(), ["x"])
            age = time.time() - 10 * 3600
            entries = {p: os.path.getsize(p) for p in glob.glob(f"{cache_folder()}/*/*-*")}
            for path in entries:
                os.utime(path, (age, age))
            same(world.build(), [])  # by the record alone
            check("unchanged" in world.result.out, world.result)
            fresh = [p for p in entries if time.time() - os.path.getmtime(p) < 3600]
            same(sorted(p[-1] for p in fresh), ["b", "l", "n", "r"])
            same(kpack("cache", "trim", "--max", str(sum(entries[p] for p in fresh))).status, 0)
            same(sorted(glob.glob(f"{cache_folder()}/*/*-*")), sorted(fresh))
            write(f"{folder}/tiny.lua", read(f"{folder}/tiny.lua") + b"-- a comment\n")
            same(world.build(), [])
            same(elsewhere.build("tiny.lua", "--out", "new"), ["x"])


main()
