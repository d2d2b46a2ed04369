#!/usr/bin/env python3
"""build when things go wrong around it: workers that die or hang, signals, races, full disks, terminals."""
import fcntl
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

from harness import Folder, binary, check, environment, golden, main, read, same, test, unprivileged, write
from project import FAKE, GOOD, Mounted, Started, World, build, left_behind, listing, module, source, target, tiny

VARIES = [(r"\d+\.\d s\b", "N s"), (r"[\d.]+ KiB packed", "N packed"), (r"used \d+ MiB", "used N MiB")]


def hanging(folder):
    """Three units: one done at once, two that never end."""
    tiny(folder, module("done"), module("hang"), module("wait"))
    source(folder, "hang", "fake hang")
    source(folder, "wait", "fake hang")


@test("a worker that crashes, exits or eats memory costs its unit one error")
def _():
    with Folder() as folder:
        tiny(folder, module("crash"), module("eat"), module("exit"), module("well"))
        source(folder, "crash", "fake stderr last words", "fake crash")
        source(folder, "eat", "fake eat-forever")
        source(folder, "exit", "fake exit 3")
        write(f"{folder}/good.lua", target([module("well")], name="good"))
        result = build(folder, "tiny.lua", "good.lua", "-k", "-j1", env={"KPACK_MEM": "300M"})
        golden("build-workers.txt", result, VARIES)
        same(sorted(os.listdir(f"{folder}/out")), ["good.kpk", "good.kpk.json"])


@test("--unit-timeout ends a unit that hangs, and only that")
def _():
    with Folder() as folder:
        tiny(folder, module("hang"))
        source(folder, "hang", "fake hang")
        golden("build-timeout.txt", build(folder, "tiny.lua", "--unit-timeout=1"), VARIES)
        source(folder, "hang", "fake sleep 300", GOOD)
        same(build(folder, "tiny.lua", "--unit-timeout=30").status, 0)


@test("time for which a build is stopped is not its units'")
def _():
    with Folder() as folder:
        tiny(folder, commands=(*["fake sleep 500"] * 3, GOOD))
        started = Started(folder, "tiny.lua", "--unit-timeout=3", start_new_session=True)
        started.wait_for_workers()
        os.killpg(started.process.pid, signal.SIGSTOP)
        time.sleep(3.5)
        os.killpg(started.process.pid, signal.SIGCONT)
        status, _, err = started.end()
        same(status, 0, err)


@test("a unit that an NVRTC is too old for: the archs it knows")
def _():
    with Folder() as folder:
        tiny(folder, arch="sm_103a")
        golden("build-arch.txt", build(folder), VARIES)


@test("KPACK_MEM bounds the workers, and -j never exceeds the units")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(3)))
        for args, memory, workers in ((("-j9",), None, 3), (("-j2",), None, 2), (("-j9",), "2G", 2),
                                      (("-j9",), "2047M", 1), (("-j9",), "1", 1), (("-j1",), "64G", 1)):
            env = {"KPACK_MEM": memory} if memory else {}
            result = build(folder, "tiny.lua", "--no-cache", *args, env=env)
            expected = f"with {workers} worker{'s' if workers > 1 else ''}\n"
            check(result.out.endswith(expected), args, memory, result)


@test("SIGINT, SIGTERM and SIGHUP stop the workers, leave no file, and end the build by the same signal")
def _():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Folder() as folder:
            hanging(folder)
            run = Started(folder, "tiny.lua", "-j2", "-k")
            try:
                run.wait_for_workers(2)
                status, out, err = run.end(number)
            finally:
                run.kill()
            same((status, out), (-number, ""), err)
            check(f"kpack: stopped by signal {int(number)} (" in err, err)
            check("error" not in err, err)
            same(os.listdir(f"{folder}/out"), [])


@test("SIGHUP that was ignored, as under nohup, stays ignored")
def _():
    with Folder() as folder:
        tiny(folder)
        source(folder, "m", "fake sleep 700", GOOD)
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        run = Started(folder)
        signal.signal(signal.SIGHUP, before)
        try:
            run.wait_for_workers()
            status, out, err = run.end(signal.SIGHUP)
        finally:
            run.kill()
        same(status, 0, out, err)


@test("a build that is killed leaves the old image, no half file and no worker")
def _():
    with Folder() as folder:
        tiny(folder)
        build(folder)
        old = read(f"{folder}/out/tiny.kpk")
        hanging(folder)
        run = Started(folder, "tiny.lua", "-j2")
        try:
            run.wait_for_workers(2)
            same(run.end(signal.SIGKILL)[0], -signal.SIGKILL)
        finally:
            run.kill()
        same(read(f"{folder}/out/tiny.kpk"), old)
        same(left_behind(folder), [])


@test("the half files of killed builds go with a build an hour later; one that is young or still written stays")
def _():
    with Folder() as folder:
        tiny(folder)
        stale, live, young = (f"{folder}/out/.tiny.kpk.kpack-new-{n}" for n in ("a1B2c3", "zzzzzz", "yyyyyy"))
        others = [f"{folder}/out/{n}" for n in (".tiny.kpk.kpack-new-", ".tiny.kpk.kpack-new-a1B2c3d", ".other.kpk.kpack-new-a1B2c3",
                                                ".tiny.kpk.new-backup", ".tiny.kpk.backup")]
        for path in (stale, live, young, *others):
            write(path, "half")
            age = 60 if path == young else 7200
            os.utime(path, (time.time() - age, time.time() - age))
        with open(live, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            same(build(folder).status, 0)
        same([os.path.exists(p) for p in (stale, live, young)], [False, True, True])
        check(all(os.path.exists(p) for p in others), os.listdir(f"{folder}/out"))
        same(len(listing(folder)["modules"]), 1)


@test("a worker that somebody kills costs its unit one error; with -k the rest goes on")
def _():
    with Folder() as folder:
        tiny(folder, module("hang"))
        source(folder, "hang", "fake hang")
        write(f"{folder}/good.lua", target([module("m")], name="good"))
        source(folder, "m", GOOD)
        run = Started(folder, "tiny.lua", "good.lua", "-k", "-j1")
        try:
            run.wait_for_workers()
            # The only worker hangs on one of the two units, sooner or later.
            os.kill(run.workers()[0], signal.SIGKILL)
            status, out, err = run.end()
        finally:
            run.kill()
        same(status, 1, out, err)
        check("'tiny/hang' was not compiled: its worker was killed by signal 9 (Killed)" in err, err)
        check(os.path.exists(f"{folder}/out/good.kpk"), out, err)


@test("two builds of one target at once both end well, and the image is whole")
def _():
    with Folder() as folder:
        tiny(folder, *(module(f"m{i}") for i in range(4)))
        results = []
        for _ in range(4):
            runs = [Started(folder, "tiny.lua", "-j2") for _ in range(3)]
            results += [run.end() for run in runs]
        same({status for status, _, _ in results}, {0}, results)
        same(len(listing(folder)["modules"]), 4)
        same(left_behind(folder), [])
        same(sorted(os.listdir(f"{folder}/out")), ["tiny.kpk", "tiny.kpk.json"])


@test("a full disk is an error, and the old image stays")
def _():
    with Folder() as folder:
        tiny(folder)
        with Mounted(f"{folder}/out", "size=64k") as mounted:
            same(build(folder).status, 0)
            old = read(f"{folder}/out/tiny.kpk")
            tiny(folder, module("m", '"plain", "stack"'))
            filler = mounted.fill()
            result = build(folder)
            same(result.status, 1, result)
            check("No space left on device" in result.err and "tiny.kpk" in result.err, result)
            same((read(f"{folder}/out/tiny.kpk"), left_behind(folder)), (old, []))
            os.remove(filler)
            same(build(folder).status, 0)
            check(read(f"{folder}/out/tiny.kpk") != old)


@test("a read-only out is an error before anything is compiled")
def _():
    with Folder() as folder:
        tiny(folder)
        with Mounted(f"{folder}/out", "size=64k") as mounted:
            mounted.remount("ro")
            result = build(folder)
            same((result.status, result.out), (1, ""))
            check("Read-only file system" in result.err and "[1/1]" not in result.err, result)


@test("a folder without the right to write, and a source without the right to read")
def _():
    who = unprivileged()
    with Folder() as folder:
        tiny(folder)
        os.makedirs(f"{folder}/out")
        os.chmod(f"{folder}/out", 0o555)
        result = build(folder, **who)
        same((result.status, result.out), (1, ""))
        check("out': Permission denied" in result.err and "[1/1]" not in result.err, result)
        os.chmod(f"{folder}/out", 0o777)
        os.chmod(f"{folder}/kernels/m.cu", 0)
        result = build(folder, **who)
        same(result.status, 1)
        check("kernels/m.cu" in result.err and "ermission denied" in result.err, result)
        os.chmod(f"{folder}/kernels/m.cu", 0o644)
        same(build(folder, **who).status, 0)


@test("a folder that k.glob may not read: no module is missing without a word")
def _():
    who = unprivileged()
    with Folder() as folder:
        for name in ("a", "b"):
            source(folder, f"{name}/{name}", GOOD)
        os.symlink("nowhere", f"{folder}/kernels/c")
        write(f"{folder}/tiny.lua", 'local k = require "kpack"\nreturn k.target { name = "tiny", arch = "sm_90a", '
              'modules = { k.glob "kernels/*/*.cu" } }\n')
        os.chmod(folder, 0o777)
        os.chmod(f"{folder}/kernels/a", 0o311)
        result = build(folder, **who)
        same((result.status, result.out), (1, ""))
        check(re.search(r"tiny\.lua:2: k\.glob 'kernels/\*/\*\.cu' cannot read '.*/kernels/a': Permission denied\n", result.err), result)
        check("finds no file" not in result.err, result)
        os.chmod(f"{folder}/kernels/a", 0o755)
        result = build(folder, **who)
        same(result.status, 0, result)
        check("2 units" in result.out, result)
        os.symlink("nowhere.cu", f"{folder}/kernels/a/c.cu")
        result = build(folder, **who)
        same((result.status, result.out), (1, ""))
        check("/kernels/a/c.cu': No such file or directory\n" in result.err, result)


@test("NVRTC's other libraries, where they cannot be read")
def _():
    who = unprivileged()
    with Folder() as folder:
        tiny(folder)
        world = World(folder)
        os.chmod(folder, 0o777)
        builtins = f"{world.cuda}/lib64/libnvrtc-builtins.so.13.0"
        os.chmod(builtins, 0)
        result = build(folder, fake=world.cuda, **who)
        same((result.status, result.out), (1, ""), result)
        check(f"cannot read '{os.path.realpath(builtins)}': Permission denied" in result.err, result)
        os.chmod(builtins, 0o644)
        same(build(folder, fake=world.cuda, **who).status, 0)


@test("closed standard streams put no word of the summary into a file")
def _():
    with Folder() as folder:
        tiny(folder)
        build(folder)
        image = read(f"{folder}/out/tiny.kpk")
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            os.remove(f"{folder}/out/tiny.kpk")
            done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", binary(), "tiny.lua", "--cuda", FAKE, "-v"],
                                  cwd=folder, env=environment(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
            same((done.returncode, read(f"{folder}/out/tiny.kpk")), (0, image), closed, done)


@test("--progress: plain lines, nothing, and no status line where there is no terminal")
def _():
    with Folder() as folder:
        tiny(folder)
        for mode, lines in (("plain", 1), ("auto", 1), ("none", 0)):
            result = build(folder, "tiny.lua", "--no-cache", f"--progress={mode}", env={"TERM": "xterm"})
            same(result.err.count("[1/1] tiny/m"), lines, mode, result)
            check("\033" not in result.err and "\r" not in result.err, result)


def on_terminal(folder, *args, columns=60, env=None):
    """Runs a build with standard error on a terminal; returns (status, what it drew)."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([binary(), *args, "--cuda", FAKE], cwd=folder, stderr=inner,
                               stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               env=environment({"TERM": "xterm", **(env or {})}))
    os.close(inner)
    drawn = []

    def drain():
        try:
            while True:
                drawn.append(os.read(outer, 4096))
        except OSError:
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    status = process.wait(60)
    reader.join(10)
    os.close(outer)
    return status, b"".join(drawn).decode()


@test("the status line: units done, running units, time; within the terminal's width; wiped at the end")
def _():
    with Folder() as folder:
        names = [f"unit_with_a_long_name_{i}" for i in range(4)]
        tiny(folder, *(module(n) for n in names))
        for name in names:
            source(folder, name, "fake sleep 700", GOOD)
        status, drawn = on_terminal(folder, "tiny.lua", "-j2")
        same(status, 0, drawn)
        frames = [f for f in drawn.split("\r\033[K") if f]
        check(all(len(frame.rstrip("\r\n")) < 60 and "\n" not in frame for frame in frames), frames)
        check(any(re.match(r"\[0/4\] 0 s: tiny/unit_with_a_long_name_\d, tiny/unit", f) for f in frames), frames)
        check(any(re.match(r"\[2/4\] \d+ s, about \d+ s left: tiny/", f) for f in frames), frames)
        check(drawn.endswith("\r\033[K"), repr(drawn))


@test("errors on a terminal are coloured and stand apart from the status line; NO_COLOR is heeded")
def _():
    with Folder() as folder:
        tiny(folder, module("bad"))
        source(folder, "bad", "fake sleep 300", "fake log kernels/bad.cu(1): error: no", "fake result 6")
        status, drawn = on_terminal(folder, "tiny.lua")
        same(status, 1)
        check("\r\033[Kkpack: \033[1;31merror:\033[0m kernels/bad.cu:1: no\r\n" in drawn, repr(drawn))
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            status, drawn = on_terminal(folder, "tiny.lua", env=env)
            check("kpack: error: kernels/bad.cu:1: no\r\n" in drawn, repr(drawn))
            check("\033[1" not in drawn, env, repr(drawn))
        check("\033" not in drawn, repr(drawn))


@test("Ctrl-C on a terminal, which reaches the workers too, shows no error of theirs")
def _():
    with Folder() as folder:
        hanging(folder)
        run = Started(folder, "tiny.lua", "-j2", "-k")
        try:
            run.wait_for_workers(2)
            for pid in run.workers():
                os.kill(pid, signal.SIGINT)
            status, _, err = run.end(signal.SIGINT)
        finally:
            run.kill()
        same(status, -signal.SIGINT, err)
        check("error" not in err, err)


main()
