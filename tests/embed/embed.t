#!/usr/bin/env python3
"""The runtime's folder alone, copied elsewhere, builds with warnings as errors, and its example runs."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CUDA = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda",
        os.path.join(ROOT, "out", "cuda")]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
count, failed = 0, False


def report(name, fault=None, skip=None):
    global count, failed
    count += 1
    failed = failed or bool(fault)
    for line in (fault or "").splitlines()[:40]:
        print("# " + line)
    print(f"{'not ok' if fault else 'ok'} {count} - {name}{f' # SKIP {skip}' if skip else ''}", flush=True)


def run(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120, **more)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def fault_of(command, **more):
    status, output = run(command, **more)
    return None if status == 0 else f"{' '.join(command)}: status {status}\n{output}"


def build(name, compiler, flags, folder, libraries, link=True):
    """Compiles the copied folder and the example; returns the program or None."""
    if not shutil.which(compiler):
        report(name, skip=f"{compiler} is not installed")
        return None
    program = os.path.join(folder, "example-" + re.sub(r"\W", "-", name))
    sources = sorted(glob.glob(os.path.join(folder, "*.c")))
    if link:
        fault = fault_of([compiler, *flags, *WARNINGS, "-O2", "-I.", *sources, "-o", program, *libraries], cwd=folder)
    else:
        fault = fault_of([compiler, *flags, *WARNINGS, "-O2", "-I.", "-c", *sources], cwd=folder)
    report(name, fault)
    return program if link and not fault else None


def builds(folder):
    libraries = ["-lzstd", "-ldl", "-lpthread"]
    strict = ["-Wshadow", "-Wconversion", "-Wvla", "-pedantic-errors"]
    programs = [
        build("builds as C11 with gcc", "gcc", ["-std=c11", *strict], folder, libraries),
        build("builds as C11 with clang", "clang", ["-std=c11"], folder, libraries),
        build("builds as C++17 with g++", "g++", ["-std=c++17", "-x", "c++"], folder, ["-x", "none", *libraries]),
        build("builds as C++17 with clang++", "clang++", ["-std=c++17", "-x", "c++"], folder, ["-x", "none", *libraries]),
    ]
    # zstd.h and xxhash.h are the same on every machine; only objects are made.
    build("compiles for aarch64", "aarch64-linux-gnu-gcc", ["-std=c11", "-idirafter", "/usr/include"], folder, [], link=False)
    return [p for p in programs if p]


def sample_image(folder):
    """The golden image, else one of the tests' own making: both have alpha:one in them or say so."""
    path = os.path.join(folder, "small.kpk")
    source = os.path.join(folder, "make.c.txt")
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include <stdio.h>\n#include "unit/kpk_build.h"\nint main(void)\n{\n'
                   "    struct build_bytes b = build_write(&build_small);\n"
                   "    return fwrite(b.data, 1, b.size, stdout) != b.size;\n}\n")
    maker = os.path.join(folder, "make")
    fault = fault_of(["gcc", "-Isrc", "-Itests", "-x", "c", source, "tests/unit/kpk_build.c", "-o", maker, "-lzstd"], cwd=ROOT)
    if not fault:
        with open(path, "wb") as file:
            fault = None if subprocess.run([maker], stdout=file, timeout=60).returncode == 0 else "the image was not made"
    return path, fault


def examples(programs, folder):
    image, fault = sample_image(folder)
    for program in programs:
        name = os.path.basename(program)
        log = program + ".log"
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(ROOT, "out", "fake"), FAKE_CUDA_LOG=log)
        bad = fault
        if not bad:
            status, output = run([program, image, "alpha", "one"], env=env)
            calls = open(log, encoding="utf-8").read().split() if os.path.exists(log) else []
            if status != 0 or output != "alpha:one: ok\n" or calls.count("cuLaunchKernel") != 1:
                bad = f"status {status}, calls {calls}\n{output}"
        report(f"{name} launches alpha:one", bad)
    if not programs:
        return
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(ROOT, "out", "fake"))
    status, output = run([programs[0], image, "alpha", "three"], env=env)
    good = status == 1 and output == "the module has no such entry\nalpha:three: the image does not have it\n"
    report("an absent entry is told and launches nothing", None if good else f"status {status}\n{output}")
    env["LD_LIBRARY_PATH"] = os.path.join(ROOT, "out", "fake", "old")
    status, output = run([programs[0], image, "alpha", "one"], env=env)
    good = status == 1 and "libcuda.so.1 has no function 'cuLibraryLoadData'" in output
    report("a driver that is too old is named", None if good else f"status {status}\n{output}")


def symbols(path):
    _, output = run(["nm", "-D", "--defined-only", path])
    return [line.split()[-1] for line in output.splitlines()]


def libraries(folder):
    lib = os.path.join(ROOT, "out", "lib", "libkpk.so")
    header = open(os.path.join(ROOT, "src", "runtime", "kpk.h"), encoding="utf-8").read()
    declared = set(re.findall(r"KPK_API[^;(]*?\*?(kpk_\w+)\(", header))
    found = set(symbols(lib))
    fault = "".join(f"{name} is exported and not in kpk.h\n" for name in sorted(found - declared))
    fault += "".join(f"{name} is in kpk.h and not exported\n" for name in sorted(declared - found))
    report("libkpk.so exports what kpk.h declares, and nothing else", fault or None)
    _, needed = run(["readelf", "-d", lib])
    bad = [line for line in re.findall(r"NEEDED.*\[(.*)\]", needed) if not re.match(r"lib(c|zstd|dl|pthread|m)\.so|ld-", line)]
    report("libkpk.so needs libc and zstd at most", f"needs {bad}" if bad else None)
    ops = os.path.join(ROOT, "out", "lib", "libkpk_ops.so")
    moved = os.path.join(folder, "moved")
    os.mkdir(moved)
    for path in (lib, ops):
        shutil.copy(path, moved)
    code = ("import ctypes, os, sys; ctypes.CDLL(sys.argv[1]);"
            "sys.exit(not any(os.path.dirname(sys.argv[1]) + '/libkpk.so' in l for l in open('/proc/self/maps')))")
    _, dynamic = run(["readelf", "-d", ops])
    if "[libkpk.so]" not in dynamic:
        report("libkpk_ops.so finds libkpk.so beside itself", "libkpk_ops.so does not need libkpk.so")
        return
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    report("libkpk_ops.so finds libkpk.so beside itself",
           fault_of([sys.executable, "-c", code, os.path.join(moved, "libkpk_ops.so")], cwd="/", env=env))


def types(folder):
    name = "our declarations of the driver are cuda.h's"
    headers = [os.path.dirname(h) for d in CUDA if d
               for h in glob.glob(os.path.join(d, "include", "cuda.h")) + glob.glob(os.path.join(d, "**", "cuda.h"), recursive=True)[:1]]
    if not headers:
        report(name, skip="no cuda.h found")
        return
    report(name, fault_of(["gcc", "-std=c11", *WARNINGS, "-I", folder, "-Isrc", "-I", headers[0], "-c", "tests/embed/types.c",
                           "-o", os.path.join(folder, "types.o")], cwd=ROOT))


def threads(folder, name, test, *more_parts):
    name += " by many threads is clean under ThreadSanitizer"
    program = os.path.join(folder, test)
    parts = [*(f"tests/unit/{part}.c" for part in (test, "runtime_fixture", "kpk_build", *more_parts)), "tests/fake/cuda.c"]
    status, output = run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", "-Isrc", *parts,
                          *sorted(glob.glob("src/runtime/*.c", root_dir=ROOT)), "-o", program, "-lcmocka", "-lzstd"], cwd=ROOT)
    if status != 0 and "libtsan" in output:
        report(name, skip="gcc has no libtsan here")
        return
    status, more = (status, output) if status != 0 else run([program], env=dict(os.environ, TSAN_OPTIONS="exitcode=66"))
    report(name, None if status == 0 else f"status {status}\n{more}")


with tempfile.TemporaryDirectory(prefix="kpk embed ") as temporary:
    alone = os.path.join(temporary, "runtime")
    shutil.copytree(os.path.join(ROOT, "src", "runtime"), alone)
    shutil.copy(os.path.join(ROOT, "tests", "embed", "example.c"), alone)
    made = builds(alone)
    examples(made, temporary)
    libraries(temporary)
    types(alone)
    threads(temporary, "first use", "test_runtime_threads")
    threads(temporary, "picking a bundle's part", "test_runtime_bundle", "build_bundle")
print(f"1..{count}")
sys.exit(1 if failed else 0)
