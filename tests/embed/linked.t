#!/usr/bin/env python3
"""Programs with the runtime inside, and an image: by .incbin, and by the object that 'kpack embed' writes."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KPACK = os.path.join(ROOT, os.environ.get("KPACK_TEST_OUT") or "out", "bin", "kpack")
HERE = os.path.join(ROOT, "tests", "embed")
LIBRARIES = [os.path.join(ROOT, "out", "lib", "libkpk.a"), "-lzstd", "-ldl", "-lpthread"]
STRICT = ["-O1", "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(ROOT, "src", "runtime"), "-Wl,--fatal-warnings"]
CROSS = "aarch64-linux-gnu-gcc"
count, failed = 0, False


class Fault(Exception):
    pass


def test(name, function, *args, needs=()):
    global count, failed
    count += 1
    missing = [n for n in needs if not shutil.which(n)]
    if missing:
        print(f"ok {count} - {name} # SKIP {missing[0]} is not installed", flush=True)
        return
    try:
        function(*args)
        print(f"ok {count} - {name}", flush=True)
    except Fault as fault:
        failed = True
        print("\n".join("# " + line for line in str(fault).splitlines()[:40]))
        print(f"not ok {count} - {name}", flush=True)


def run(*command, env=None):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          env={**os.environ, **(env or {})}, check=False)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        raise Fault(f"{' '.join(command)}: status {done.returncode}\n{text}")
    return text


def expect(found, wanted):
    if found != wanted:
        raise Fault(f"found\n{found}\nexpected\n{wanted}")


def launches(program):
    log = program + ".log"
    text = run(program, "alpha", "one", env={"LD_LIBRARY_PATH": os.path.join(ROOT, "out", "fake"), "FAKE_CUDA_LOG": log})
    expect(text, "alpha:one: ok\n")
    with open(log, encoding="utf-8") as file:
        expect(file.read().split().count("cuLaunchKernel"), 1)


def engine(compiler, language, objects, program, *flags):
    """An engine with the runtime inside and the image linked in."""
    run(compiler, *language, *STRICT, *flags, f"{HERE}/embedded.c", *(["-x", "none"] if language else []), *objects,
        "-o", program, *LIBRARIES)
    launches(program)


def incbin(folder, image):
    run("gcc", "-c", f'-DIMAGE="{image}"', f"{HERE}/incbin.S", "-o", f"{folder}/incbin.o")
    engine("gcc", [], [f"{folder}/incbin.o"], f"{folder}/by-incbin")


def misses(folder, image):
    """What an engine missed, as its own runtime says it, against the image and against one that has more."""
    run("gcc", *STRICT, f"{HERE}/misses.c", "-o", f"{folder}/misses", *LIBRARIES)
    asked = ["alpha", "one", "alpha", "three", "omega", "never", "alpha", "three", 'a "b"\\\n', "c\t"]
    for names, status, answers in ((asked, 1, [('a "b"\\\n', "c\t", 1), ("alpha", "three", 2)]), (asked[:2], 0, [])):
        text = run(f"{folder}/misses", image, *names)
        with open(f"{folder}/misses.json", "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([KPACK, "audit", image, "--lookups", f"{folder}/misses.json", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        found = json.loads(done.stdout)
        expect([(i["module"], i["entry"], i["count"]) for i in found["lookups"]], answers)
        expect([i["answer"] for i in found["lookups"]], ["undeclared"] * len(answers))
        expect(done.returncode, status)


def embed(folder, image):
    """Objects for both machines; the default is this host's."""
    for machine in ("x86-64", "aarch64"):
        said = run(KPACK, "embed", "-o", f"{folder}/{machine}.o", "--machine", machine, image)
        expect(said.splitlines()[1:], ["extern const unsigned char kpk_image_small[];", "extern const size_t kpk_image_small_size;"])
    run(KPACK, "embed", image, "-o", f"{folder}/host.o")
    with open(f"{folder}/host.o", "rb") as file, open(f"{folder}/{os.uname().machine.replace('_', '-')}.o", "rb") as other:
        expect(file.read() == other.read(), True)


def well_formed(folder, machine, wanted, property_):
    path = f"{folder}/{machine}.o"
    text = run("readelf", "-aW", path)
    for word in ("Warning", "Error", "<unknown"):
        if word in text:
            raise Fault(text)
    for word in (wanted, "REL (Relocatable file)", "There are no relocations in this file", property_):
        if word not in text:
            raise Fault(f"no '{word}' in\n{text}")
    sections = {line.split("]")[1].split()[0]: line.split("]")[1].split() for line in text.splitlines()
                if line.strip().startswith("[") and "." in line}
    expect(sections[".rodata"][-1], "64")
    expect(sections[".note.GNU-stack"][4], "000000")


def shared_library(folder):
    """The image in a library of its own, without text relocations; its user links the library."""
    library = f"{folder}/libsmall.so"
    run("gcc", "-shared", "-Wl,-z,text", "-Wl,--fatal-warnings", "-Wl,-soname,libsmall.so", f"{folder}/host.o", "-o", library)
    if "TEXTREL" in run("readelf", "-dW", library):
        raise Fault("text relocations")
    stack, = [line for line in run("readelf", "-lW", library).splitlines() if "GNU_STACK" in line]
    if " E " in stack or "RWE" in stack:
        raise Fault(stack)
    engine("gcc", ["-fPIC"], [library], f"{folder}/with-library", f"-Wl,-rpath,{folder}")


def inside_library(folder, image):
    """The image and what reads it in one library."""
    library = f"{folder}/libinside.so"
    run("gcc", "-shared", "-fPIC", "-Dmain=entry", *STRICT, "-Wl,-z,text", "-Wl,-Bsymbolic", f"{HERE}/bytes.c", f"{folder}/host.o",
        "-o", library)
    code = ("import ctypes, sys; argv = (ctypes.c_char_p * 3)(b'', sys.argv[2].encode());"
            "sys.exit(ctypes.CDLL(sys.argv[1]).entry(2, argv))")
    run(sys.executable, "-c", code, library, image)


def other_machine(folder, image):
    program = f"{folder}/bytes-aarch64"
    run(CROSS, "-static", *STRICT, f"{HERE}/bytes.c", f"{folder}/aarch64.o", "-o", program)
    run(next(q for q in ("qemu-aarch64", "qemu-aarch64-static") if shutil.which(q)), program, image)


def two_images(folder, image):
    """Names follow the files, so a base and a fix go into one program."""
    shutil.copy(image, f"{folder}/hot-fix.1.kpk")
    run(KPACK, "embed", f"{folder}/hot-fix.1.kpk", "-o", f"{folder}/fix.o")
    names = run("nm", "-g", "--defined-only", f"{folder}/fix.o").split()[2::3]
    expect(sorted(names), ["kpk_image_hot_fix_1", "kpk_image_hot_fix_1_size"])
    engine("gcc", [], [f"{folder}/host.o", f"{folder}/fix.o"], f"{folder}/with-two")


def main():
    with tempfile.TemporaryDirectory(prefix="kpk-linked-") as folder:
        image = os.path.join(folder, "small.kpk")
        maker = os.path.join(folder, "make")
        with open(maker + ".c", "w", encoding="utf-8") as file:
            file.write('#include <stdio.h>\n#include "unit/kpk_build.h"\nint main(void)\n{\n'
                       "    struct build_bytes b = build_write(&build_small);\n"
                       "    return fwrite(b.data, 1, b.size, stdout) != b.size;\n}\n")
        run("gcc", f"-I{ROOT}/src", f"-I{ROOT}/tests", maker + ".c", f"{ROOT}/tests/unit/kpk_build.c", "-o", maker, "-lzstd")
        with open(image, "wb") as file:
            subprocess.run([maker], stdout=file, check=True, timeout=60)
        test("an image by .incbin is opened where it lies", incbin, folder, image)
        test("what an engine missed is a list that audit reads", misses, folder, image)
        test("embed writes an object for either machine, the host's by default", embed, folder, image)
        test("readelf has nothing to say against the x86-64 object", well_formed, folder, "x86-64", "Advanced Micro Devices X86-64",
             "x86 feature: IBT, SHSTK")
        test("nor against the aarch64 object", well_formed, folder, "aarch64", "AArch64", "AArch64 feature: BTI, PAC")
        host = [f"{folder}/host.o"]
        test("gcc links it into an engine that opens it", engine, "gcc", [], host, f"{folder}/by-gcc", needs=["gcc"])
        test("so does g++", engine, "g++", ["-std=c++17", "-x", "c++"], host, f"{folder}/by-gxx", needs=["g++"])
        test("so does clang", engine, "clang", [], host, f"{folder}/by-clang", needs=["clang"])
        test("so does gcc with all of its hardening", engine, "gcc", ["-fPIE"], host, f"{folder}/by-pie", "-pie",
             "-Wl,-z,now,-z,relro,-z,noexecstack")
        test("it makes a shared library without text relocations", shared_library, folder)
        test("and is read from inside one", inside_library, folder, image)
        test("two images have names of their own", two_images, folder, image)
        qemu = "qemu-aarch64" if shutil.which("qemu-aarch64") else "qemu-aarch64-static"
        test("an aarch64 program finds the image's bytes in it", other_machine, folder, image, needs=[CROSS, qemu])
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
