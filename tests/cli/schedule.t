#!/usr/bin/env python3
"""How many units run at once: memory by recorded peaks, and make's jobserver."""
import json
import os
import shlex
import shutil
import signal
import subprocess
import time

from harness import Folder, Skip, binary, cache_folder, check, environment, main, read, same, test, write
from project import FAKE, GOOD, Started, build, module, source, tiny


def units(folder, count, *commands):
    tiny(folder, *(module(f"m{i}") for i in range(count)))
    for i in range(count):
        source(folder, f"m{i}", f"// {i}", *commands, GOOD)


@test("units run at once as far as their recorded peaks fit into memory")
def _():
    with Folder() as folder:
        units(folder, 4, "fake eat 64")
        result = build(folder, "tiny.lua", "-j8", env={"KPACK_MEM": "64G"})
        same(result.status, 0, result)
        peaks = [u["peak_bytes"] for u in json.loads(read(f"{folder}/out/tiny.kpk.json"))["units"]]
        check(min(peaks) > 64 << 20, peaks)
        for times, workers in ((1.5, 1), (2.5, 2), (3.5, 3), (9, 4)):
            # A worker that has compiled before peaks higher: these records are of new ones.
            cache = shutil.copytree(cache_folder(), f"{folder}-{times}")
            units(folder, 4, "fake eat 64", f"// {times}")
            result = build(folder, "tiny.lua", "-j8", "--cache", cache,
                           env={"KPACK_MEM": str(int(max(peaks) * times))})
            same(result.status, 0, result)
            check(f"with {workers} worker{'s' if workers > 1 else ''}" in result.out, times, peaks, result)


class Tokens:
    """A jobserver of the test's own; `style` is how MAKEFLAGS names it."""

    def __init__(self, folder, count, style):
        self.fifo = f"{folder}/fifo" if style == "fifo" else None
        if self.fifo:
            os.mkfifo(self.fifo)
            self.reader = self.writer = os.open(self.fifo, os.O_RDWR)
            auth = f"--jobserver-auth=fifo:{self.fifo}"
        else:
            self.reader, self.writer = os.pipe()
            auth = f"--jobserver-{style}={self.reader},{self.writer}"
        self.add(count)
        self.env = {"MAKEFLAGS": f" -j9 {auth} -- VAR=1", "KPACK_MEM": "64G"}

    def add(self, count):
        os.write(self.writer, bytes(range(65, 65 + count)))

    def take_all(self):
        os.set_blocking(self.reader, False)
        try:
            return sorted(os.read(self.reader, 99))
        except BlockingIOError:
            return []

    def start(self, folder):
        run = Started(folder, "tiny.lua", "-j8", "--no-cache", env=self.env,
                      pass_fds=() if self.fifo else (self.reader, self.writer))
        return run

    def close(self):
        for fd in {self.reader, self.writer}:
            os.close(fd)


@test("make's jobserver: a slot for each unit but the first, all given back")
def _():
    for style in ("auth", "fds", "fifo"):
        with Folder() as folder:
            units(folder, 5, "fake sleep 400")
            tokens = Tokens(folder, 2, style)
            run = tokens.start(folder)
            try:
                run.wait_for("three workers", lambda: len(run.workers()) == 3)
                time.sleep(0.1)
                same((len(run.workers()), tokens.take_all()), (3, []))
                status, out, err = run.end()
            finally:
                run.kill()
            same((status, tokens.take_all()), (0, [65, 66]), out, err)
            tokens.close()


@test("without a free slot one unit runs, and a slot that becomes free is used")
def _():
    with Folder() as folder:
        units(folder, 4, "fake sleep 500")
        tokens = Tokens(folder, 0, "auth")
        run = tokens.start(folder)
        try:
            run.wait_for("one worker", lambda: len(run.workers()) == 1)
            time.sleep(0.2)
            same(len(run.workers()), 1)
            tokens.add(1)
            run.wait_for("two workers", lambda: len(run.workers()) == 2)
            status, out, err = run.end()
        finally:
            run.kill()
        same((status, tokens.take_all()), (0, [65]), out, err)
        tokens.close()


@test("a build that is stopped, and one that fails, give their slots back")
def _():
    for command, number in (("fake hang", signal.SIGTERM), ("fake crash", None)):
        with Folder() as folder:
            units(folder, 3, command)
            tokens = Tokens(folder, 2, "auth")
            run = tokens.start(folder)
            try:
                if number:
                    run.wait_for_workers(3)
                status, out, err = run.end(number)
            finally:
                run.kill()
            check(status != 0, out, err)
            same(tokens.take_all(), [65, 66], out, err)
            tokens.close()


@test("a jobserver that make has closed, or that is none, is as if there were none; -v says so")
def _():
    with Folder() as folder:
        units(folder, 2)
        write(f"{folder}/file", "x")
        for flags in ("-j4 --jobserver-auth=77,78", "--jobserver-auth=-2,-2", f"--jobserver-auth=fifo:{folder}/file",
                      f"--jobserver-auth=fifo:{folder}/none", "--jobserver-auth=x", "--jobserver-auth="):
            result = build(folder, "tiny.lua", "-j2", "-v", "--no-cache", env={"MAKEFLAGS": flags, "KPACK_MEM": "64G"})
            same(result.status, 0, result)
            check("with 2 workers" in result.out, result)
            check("make's jobserver cannot be reached: begin the recipe's line with '+'" in result.err, result)
        for flags in ("", "n", "-j", " -j4 -- X=--jobserver-auth"):
            result = build(folder, "tiny.lua", "-j2", "-v", "--no-cache", env={"MAKEFLAGS": flags})
            check("jobserver" not in result.err, result)


@test("under make -j, all of it together keeps to make's number")
def _():
    if not shutil.which("make"):
        raise Skip("make is not installed")
    with Folder() as folder:
        units(folder, 6, "fake sleep 150")
        write(f"{folder}/Makefile", "all: one two\none two:\n"
              f"\t+@{shlex.quote(binary())} -q --no-cache --cuda {shlex.quote(FAKE)} tiny.lua -j8 --out $@\n")
        process = subprocess.Popen(["make", "-s", "-j3"], cwd=folder, env=environment({"MAKE_TEST": folder, "KPACK_MEM": "64G"}))
        most = 0
        mark = f"MAKE_TEST={folder}".encode()
        while process.poll() is None:
            count = 0
            for pid in os.listdir("/proc"):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        worker = b"--kpack-worker" in file.read()
                    if worker:
                        with open(f"/proc/{pid}/environ", "rb") as file:
                            count += mark in file.read()
                except (OSError, ValueError):
                    continue
            most = max(most, count)
        same(process.returncode, 0)
        check(2 <= most <= 4, most)  # a worker outlives its unit, but takes no new one without a slot


main()
