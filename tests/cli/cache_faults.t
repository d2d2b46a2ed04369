#!/usr/bin/env python3
"""The cache when things go wrong: damage, full disks, kills, many builds at once; and the command that tends it."""
import os
import re
import shutil
import signal
import threading

from harness import Folder, cache_folder, check, kpack, main, read, same, test, unprivileged, write
from project import GOOD, Mounted, Started, World, build, module, source, tiny

CACHE_WARNING = "kpack: warning: cannot write into the cache '"


def entries(kind="", folder=None):
    """Paths of the cache's entries, or of those of a kind: r, n, l or b."""
    found = []
    for where, _, names in os.walk(folder or cache_folder()):
        found += [os.path.join(where, n) for n in names if n.endswith(f"-{kind}" if kind else "")]
    return sorted(found)


def forget_record():
    """So that the units are looked up one by one."""
    for path in entries("b"):
        os.remove(path)


@test("a damaged entry is dropped, and its unit compiled again")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        world.build()
        image = read(f"{folder}/out/tiny.kpk")
        for kind, units in (("r", ["m"]), ("n", ["m"]), ("l", []), ("b", [])):
            path, = entries(kind)
            good = read(path)
            size = len(good)
            damages = [good[:n] for n in (0, 1, 7, 47, 48, size // 2, size - 1)] + [good + b"\0"]
            damages += [good[:n] + bytes([good[n] ^ 1]) + good[n + 1:] for n in (0, 7, 8, 16, 47, 48, size // 2, size - 1)]
            for bad in damages:
                if kind != "b":
                    forget_record()
                write(path, bad)
                same(world.build(), units, kind, len(bad))
                same(read(f"{folder}/out/tiny.kpk"), image)
                if kind != "l":
                    check(read(path) == good or kind in "rb", kind)
                forget_record()
                same(world.build(), [])


@test("an entry under another's name is dropped")
def _():
    with Folder() as folder:
        tiny(folder, module("m"), module("n"))
        source(folder, "n", "// n", GOOD)
        world = World(folder)
        world.build()
        one, other = entries("r")
        shutil.copy(one, other)
        forget_record()
        same(len(world.build()), 1)


@test("an entry that is a folder, a FIFO or a link to nowhere is no entry")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path)):
            world.build()
            path, = entries("r")
            os.remove(path)
            make(path)
            forget_record()
            same(world.build(), ["m"])
            if make is os.mkdir:
                check(CACHE_WARNING in world.result.err, world.result)
                os.rmdir(path)
            else:
                check(os.path.isfile(path) and not os.path.islink(path))


@test("a full disk: the build works, says so once, and keeps what fits")
def _():
    with Folder() as folder, Mounted(f"{folder}-cache", "size=48k"):
        tiny(folder, *(module(f"m{i}") for i in range(8)))
        for i in range(8):
            source(folder, f"m{i}", f"// {i}", GOOD)
        world = World(folder)
        env = {"KPACK_CACHE": f"{folder}-cache"}
        same(len(world.build(env=env)), 8)
        same(world.result.err.count(CACHE_WARNING), 1, world.result)
        check("No space left on device; new results are not kept" in world.result.err, world.result)
        kept = len(entries("r", f"{folder}-cache"))
        check(0 < kept < 8, kept)
        same([n for _, _, names in os.walk(f"{folder}-cache") for n in names if n.startswith(".")], [])
        same(len(world.build(env=env)), 8 - kept)


@test("a read-only cache, on another file system too: read, with one warning when there is something to keep")
def _():
    with Folder() as folder, Mounted(f"{folder}-cache", "size=1m") as mounted:
        tiny(folder, module("m"), module("n"))
        world = World(folder)
        env = {"KPACK_CACHE": f"{folder}-cache"}
        same(world.build(env=env), ["m", "n"])
        same(world.build(env=env), [])
        mounted.remount("ro")
        source(folder, "m", "// new", GOOD)
        for _ in range(2):
            same(world.build(env=env), ["m"])
            same(world.result.err.count(CACHE_WARNING), 1, world.result)
            check("Read-only file system" in world.result.err, world.result)
        mounted.remount("rw")
        same(world.build(env=env), ["m"])
        same(world.build(env=env), [])
        mounted.remount("ro")
        same(world.build(env=env), [])
        same(world.result.err.count("warning"), 0, world.result)


@test("a cache that permissions close: read-only to write, none to read")
def _():
    who = unprivileged()
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        for path in (folder, f"{folder}/kernels"):
            os.chmod(path, 0o777)
        world.build()
        os.chmod(cache_folder(), 0o555)
        source(folder, "m", "// new", GOOD)
        shutil.rmtree(f"{folder}/out")
        os.chmod(world.count, 0o666)
        same(world.build(**who), ["m"])
        same(world.result.err.count(CACHE_WARNING), 1, world.result)
        for path in entries():
            os.chmod(path, 0)
        same(world.build(**who), ["m"])
        os.chmod(cache_folder(), 0o755)


@test("a cache that cannot be made, or has no place, is a warning")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        write(f"{folder}/file", "kept")
        for args, env, text in (
                (("--cache", "file"), {}, "there is no cache: cannot make the folder 'file'"),
                (("--cache", "file/deeper"), {}, "there is no cache: cannot make the folder 'file'"),
                ((), {"KPACK_CACHE": f"{folder}/file/x"}, "there is no cache: cannot make the folder"),
                ((), {"KPACK_CACHE": "", "XDG_CACHE_HOME": "relative", "HOME": ""}, "XDG_CACHE_HOME and HOME are not set")):
            same(world.build("tiny.lua", *args, env=env), ["m"])
            same(world.result.err.count("kpack: warning: there is no cache: "), 1, world.result)
            check(text in world.result.err, world.result)
        same(read(f"{folder}/file"), b"kept")


@test("where the cache is: --cache, KPACK_CACHE, XDG_CACHE_HOME, HOME; --no-cache touches none")
def _():
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        env = {"KPACK_CACHE": f"{folder}/b", "XDG_CACHE_HOME": f"{folder}/c", "HOME": f"{folder}/d"}
        places = (("a", ("--cache", "a")), ("b", ()), ("c/kpack", ()), ("d/.cache/kpack", ()))
        for (place, args), unset in zip(places, (None, None, "KPACK_CACHE", "XDG_CACHE_HOME")):
            if unset:
                env[unset] = ""
            same(world.build("tiny.lua", *args, env=env), ["m"], place)
            same(len(entries("r", f"{folder}/{place}")), 1, place)
            same(world.build("tiny.lua", *args, env=env), [], place)
        same(world.build("tiny.lua", "--no-cache", env={"HOME": f"{folder}/e", "KPACK_CACHE": ""}), ["m"])
        check(not os.path.exists(f"{folder}/e"))
        result = build(folder, "tiny.lua", "--no-cache", "--cache", "a")
        same(result.status, 2, result)


@test("a build that is killed keeps what it had compiled, and leaves nothing that harms")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(4)), module("slow"))
        source(folder, "slow", "fake hang", GOOD)
        for i in range(4):
            source(folder, f"m{i}", f"// {i}", GOOD)
        for number in (signal.SIGKILL, signal.SIGTERM):
            world = World(folder)
            run = Started(folder, "tiny.lua", "-j2", fake=world.cuda)
            try:
                run.wait_for("four results", lambda: len(entries("l")) == 4)
                run.end(number)
            finally:
                run.kill()
        source(folder, "slow", GOOD)
        same(world.build(), ["slow"])


@test("many builds at once share a cache: all images are the same, and nothing is left to compile")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(6)))
        for i in range(6):
            source(folder, f"m{i}", f"fake sleep {i * 5}", GOOD)
        runs = [Started(folder, "tiny.lua", "-j2", "--out", f"out{i}") for i in range(5)]
        for run in runs:
            status, out, err = run.end()
            same((status, err.count("warning")), (0, 0), out, err)
        same(len({read(f"{folder}/out{i}/tiny.kpk") for i in range(5)}), 1)
        same(World(folder).build(), [])
        same(len(entries("r")), 6)


@test("a cache that is cleared and trimmed while builds run does them no harm")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(4)))
        for i in range(4):
            source(folder, f"m{i}", "fake sleep 10", GOOD)
        done = threading.Event()

        def sweep():
            while not done.is_set():
                same(kpack("cache", "clear").status, 0)
                same(kpack("cache", "trim", "--max", "10K").status, 0)

        sweeper = threading.Thread(target=sweep)
        sweeper.start()
        try:
            for i in range(6):
                result = build(folder, "tiny.lua", "--out", f"out{i}")
                same((result.status, result.err.count("warning")), (0, 0), result)
        finally:
            done.set()
            sweeper.join()
        same(len({read(f"{folder}/out{i}/tiny.kpk") for i in range(6)}), 1)


@test("stats, trim and clear: what was used longest ago goes first, and only what is ours")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(3)))
        for i in range(3):
            source(folder, f"m{i}", f"// {i}", GOOD)
        world = World(folder)
        world.build()
        out = kpack("cache", "stats").out
        check(re.search(r"^results +3 ", out, re.M) and re.search(r"^builds +1 ", out, re.M), out)
        # A hit is a use: of all entries only those of m0 are used now.
        for number, path in enumerate(entries()):
            os.utime(path, (number + 1, number + 1))
        write(f"{folder}/one.lua", read(f"{folder}/tiny.lua").decode().replace('k.module "m1"', "--").replace(
            'k.module "m2"', "--"))
        same(world.build("one.lua"), [])
        foreign = [write(f"{cache_folder()}/{name}", "kept") for name in ("note", "ab/note", "ab/" + "0" * 62 + "-x")]
        new = write(f"{cache_folder()}/ab/.aside.new", "x")
        old = write(f"{cache_folder()}/ab/.aside.old", "x")
        os.utime(old, (1, 1))
        result = kpack("cache", "trim", "--max", "20K")
        same(result.status, 0, result)
        check(not os.path.exists(old) and os.path.exists(new))
        same((len(entries("r")), sum(os.path.getsize(p) for p in entries("r")) <= 20 << 10), (1, True))
        same(world.build("one.lua", "--out", "other"), [])
        same(world.build(), ["m1", "m2"])
        result = kpack("cache", "clear")
        same((result.status, [p for k in "rnlb" for p in entries(k)]), (0, []), result)
        check(all(os.path.exists(path) for path in foreign))
        same(kpack("cache", "stats", "--cache", f"{folder}/missing").status, 0)
        check(not os.path.exists(f"{folder}/missing"))


@test("cache: wrong usage")
def _():
    for args, text in ((("trim", "--max", "x"), "option '--max' is 'x', expected a size"),
                       (("stats", "--max", "1G"), "option '--max' is for 'kpack cache trim'"),
                       (("polish",), "got 'polish', expected stats, trim or clear"), ((), "needs ACTION")):
        result = kpack("cache", *args)
        same((result.status, result.out), (2, ""), result)
        check(text in result.err, result)


main()
