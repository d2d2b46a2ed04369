#!/usr/bin/env python3
"""The measurements of build.sh: build.py MEASUREMENT FOLDER, in the projects of build_corpus.py."""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

KPACK = os.path.realpath(os.environ.get("KPACK", "out/bin/kpack"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = int(os.environ.get("ROUNDS", "41"))  # of what takes milliseconds
PASSES = int(os.environ.get("PASSES", "3"))  # of what takes seconds
PROJECT = os.environ.get("PROJECT", ROOT)  # whose two images are built
CORES = len(os.sched_getaffinity(0))
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
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


def make(goal):
    """The same sources by nvcc, one process each, from make."""
    shutil.rmtree(f"{FOLDER}/peer", ignore_errors=True)
    return run("make", "-s", f"-j{CORES}", goal, env={"NVCC": NVCC})


def beside_nvcc(name, mine, peer):
    """Both in turns; each is a function that returns milliseconds."""
    if not os.path.exists(NVCC):
        print(f"{name}: there is no nvcc here")
        return
    walls, used = ([], []), [0.0, 0.0]
    for _ in range(PASSES):
        for number, work in enumerate((mine, peer)):
            before = processor()
            walls[number].append(work() / 1e3)
            used[number] += (processor() - before) / 1e3 / PASSES
    m, p = (statistics.median(w) for w in walls)
    print(f"{name}: kpack {m:.2f} s ({used[0]:.1f} s of processor), nvcc under make {p:.2f} s ({used[1]:.1f} s), -j{CORES}, "
          f"medians of {PASSES}, ratio {m / p:.2f}; all: {' '.join(f'{x:.2f}/{y:.2f}' for x, y in zip(*walls))}", flush=True)


def cold():
    beside_nvcc("cold, small units", lambda: kpack("--no-cache"), lambda: make("all"))


def heavy():
    beside_nvcc("cold, heavy units", lambda: run(KPACK, "-q", "heavy.lua", "--no-cache"), lambda: make("heavy"))


def image_commands(name):
    """A make rule for each unit of a target's image: nvcc with what the image says of its modules."""
    image, database = f"{FOLDER}/{name}.kpk", f"{FOLDER}/{name}.json"
    subprocess.run([KPACK, "-q", f"targets/{name}.lua", "-o", image, "--compile-commands", database], cwd=PROJECT, env=ENV, check=True)
    listing = json.loads(subprocess.run([KPACK, "list", "--json", image], stdout=subprocess.PIPE, check=True).stdout)
    flags = {flag for m in listing["modules"] for flag in m["flags"]}
    with open(database, encoding="utf-8") as file:
        commands = json.load(file)
    assert len(commands) == len(listing["modules"])
    rules = []
    for number, command in enumerate(commands):
        out = f"{FOLDER}/peer/{name}{number}.cubin"
        words = [a for a in command["arguments"] if a.startswith(("-D", "-I"))]
        rules.append((out, f"{NVCC} -cubin -arch={listing['arch']} {' '.join([*sorted(flags), *words])} -o {out} {command['file']}"))
    return rules


def images():
    """The project's own two images."""
    def rules():
        both = image_commands("hopper") + image_commands("gb10")
        with open(f"{FOLDER}/images.mk", "w", encoding="utf-8") as out:
            out.write("all: " + " ".join(o for o, _ in both) + "\n" + "".join(f"{o}:\n\t@{c}\n" for o, c in both))

    def peer():
        shutil.rmtree(f"{FOLDER}/peer", ignore_errors=True)
        os.mkdir(f"{FOLDER}/peer")
        return run("make", "-s", f"-j{CORES}", "-C", PROJECT, "-f", f"{FOLDER}/images.mk")

    if os.path.exists(NVCC):
        rules()
    beside_nvcc("cold, the two images", lambda: run(KPACK, "-q", f"{PROJECT}/targets/hopper.lua", f"{PROJECT}/targets/gb10.lua", "--out",
                                                    f"{FOLDER}/images", "--no-cache"), peer)


def workers():
    """One worker to as many as there are cores, in turns: the time of one over N times that of N."""
    counts = [n for n in (1, 2, 4, 8, 16) if n <= CORES]
    walls, used = {n: [] for n in counts}, {n: [] for n in counts}
    for _ in range(PASSES):
        for count in counts:
            before = processor()
            walls[count].append(kpack("-j", str(count), "--no-cache"))
            used[count].append(processor() - before)
    one = statistics.median(walls[1])
    for count in counts:
        wall = statistics.median(walls[count])
        print(f"workers: {count:2}: {wall / 1e3:6.2f} s, efficiency {one / wall / count:4.0%}, "
              f"processor time {statistics.median(used[count]) / 1e3:.1f} s", flush=True)


def threads():
    """NVRTC alone, without kpack: threads of one process beside processes; and what N loops without memory take."""
    direct = os.environ["DIRECT"]
    doctor = subprocess.run([KPACK, "doctor"], stdout=subprocess.PIPE, check=True).stdout.decode()
    library = re.search(r"^NVRTC .*?(/\S+)$", doctor, re.M).group(1)
    sources = sorted(os.path.relpath(s, FOLDER) for s in glob.glob(f"{FOLDER}/kernels/unit*.cu"))

    def seconds(*words):
        return float(subprocess.run([direct, *words], cwd=FOLDER, stdout=subprocess.PIPE, check=True).stdout)

    for count in [n for n in (1, 8, 16) if n <= CORES]:
        spin = seconds("spin", str(count))
        both = [seconds(way, str(count), library, "sm_90a", *sources) for way in ("threads", "processes")]
        print(f"threads: {len(sources)} units, {count:2} threads {both[0]:.2f} s, {count:2} processes {both[1]:.2f} s, "
              f"{count} empty loops {spin:.2f} s", flush=True)


MEASUREMENTS = {"noop": noop, "edit": edit, "cold": cold, "heavy": heavy, "images": images, "workers": workers, "threads": threads}
MEASUREMENTS[sys.argv[1]]()
