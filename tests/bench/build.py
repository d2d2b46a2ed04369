#!/usr/bin/env python3
"""The measurements of build.sh: build.py noop|edit|cold FOLDER, in a project of build_corpus.py."""
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

KPACK = os.path.realpath(os.environ.get("KPACK", "out/bin/kpack"))
ROUNDS = int(os.environ.get("ROUNDS", "41"))
FOLDER = sys.argv[2]
ENV = {**os.environ, "KPACK_CACHE": f"{FOLDER}/cache"}
ENV.pop("MAKEFLAGS", None)


def run(*command, env=None):
    """Runs a command in the project; returns milliseconds."""
    start = time.perf_counter()
    subprocess.run(command, cwd=FOLDER, env={**ENV, **(env or {})}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def processor():
    """Milliseconds of processor time that all children so far have used."""
    times = os.times()
    return (times.children_user + times.children_system) * 1e3


def interleaved(*commands, rounds=ROUNDS):
    """For each command the median and the least milliseconds, and the mean of its processor time."""
    walls = [[] for _ in commands]
    used = [0.0 for _ in commands]
    for _ in range(rounds):
        for number, command in enumerate(commands):
            before = processor()
            walls[number].append(run(*command))
            used[number] += processor() - before
    return [(statistics.median(w), min(w), u / rounds) for w, u in zip(walls, used)]


def kpack(*args, env=None):
    return run(KPACK, "-q", "corpus.lua", *args, env=env)


def results():
    return set(glob.glob(f"{FOLDER}/cache/*/*-r"))


def noop():
    """Nothing changed, against ninja over the same graph; /bin/true is what starting a process costs."""
    kpack()
    run("ninja", env={"NVCC": ""})
    first = kpack()  # files younger than the record are read
    time.sleep(2.5)
    kpack()
    names = ("kpack", "ninja", "/bin/true")
    times = interleaved((KPACK, "-q", "corpus.lua"), ("ninja",), ("/bin/true",))
    for name, (median, least, used) in zip(names, times):
        print(f"noop: {name}: median {median:.1f} ms, least {least:.1f} ms, processor time {used:.1f} ms")
    print(f"noop: kpack / ninja {times[0][0] / times[1][0]:.2f} by median; the first one after a build {first:.1f} ms")


def readers(header):
    """The units whose includes lead to the header."""
    names = {header}
    while True:
        more = set(names)
        for path in glob.glob(f"{FOLDER}/kernels/*"):
            with open(path, encoding="ascii") as file:
                if any(f'#include "{n}"' in text for text in [file.read()] for n in names):
                    more.add(os.path.basename(path))
        if more == names:
            return {n for n in names if n.endswith(".cu")}
        names = more


def edit():
    """One header edited: what is compiled, against what reads it; the time, against that set alone."""
    image = f"{FOLDER}/out/corpus.kpk"
    kpack()
    for header, text in (("op3.cuh", "// a comment\n"), ("op3.cuh", "#define MORE 1.0f\n"), ("vec2.cuh", "// a comment\n"),
                         ("number.cuh", "// a comment\n")):
        expected = readers(header)
        with open(f"{FOLDER}/kernels/{header}", "a", encoding="ascii") as file:
            file.write(text)
        before, stamp = results(), os.stat(image).st_mtime_ns
        with open(f"{FOLDER}/kernels/{header}", encoding="ascii") as file:
            assert file.read().endswith(text)
        named = subprocess.run([KPACK, "-n", "corpus.lua"], cwd=FOLDER, env=ENV, stdout=subprocess.PIPE, check=True)
        named = {f"{re.sub('.*/', '', n)}.cu" for n in named.stdout.decode().split()}
        took = kpack()
        compiled = len(results() - before)
        alone = write_alone(expected)
        kpack("--no-cache", "-o", f"{FOLDER}/full.kpk")
        with open(image, "rb") as mine, open(f"{FOLDER}/full.kpk", "rb") as full:
            same = mine.read() == full.read()
        print(f"edit: {header}: {len(expected)} units read it; named {len(named)}, compiled {compiled}, stale "
              f"{len(expected - named)}, extra {len(named - expected)}; {took:.0f} ms, that set alone {alone:.0f} ms; image "
              f"{'as' if same else 'NOT AS'} a full rebuild's, {'kept' if os.stat(image).st_mtime_ns == stamp else 'written'}")


def write_alone(units):
    """Compiles these units without a cache; returns milliseconds."""
    with open(f"{FOLDER}/corpus.lua", encoding="ascii") as file:
        lines = file.read().splitlines()
    kept = [line for line in lines if "k.module" not in line or re.search(r"unit\d+", line)[0] + ".cu" in units]
    with open(f"{FOLDER}/alone.lua", "w", encoding="ascii") as file:
        file.write("\n".join(kept) + "\n")
    return run(KPACK, "-q", "alone.lua", "--no-cache", "-o", f"{FOLDER}/alone.kpk")


def cold():
    """Everything, against nvcc under make with as many jobs."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        print("cold: there is no nvcc here")
        return
    jobs = str(len(os.sched_getaffinity(0)))
    mine = kpack("-j", jobs, "--no-cache")
    shutil.rmtree(f"{FOLDER}/peer", ignore_errors=True)
    peer = run("make", "-s", "-j", jobs, env={"NVCC": nvcc})
    print(f"cold: kpack {mine / 1e3:.1f} s, nvcc under make {peer / 1e3:.1f} s, -j{jobs}, ratio {mine / peer:.2f}")


{"noop": noop, "edit": edit, "cold": cold}[sys.argv[1]]()
