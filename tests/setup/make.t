#!/usr/bin/env python3
"""The Makefile's rules: what a change makes again, and what an installation holds."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
results = []


def check(name, held, note=""):
    results.append(bool(held))
    print(f"{'ok' if held else 'not ok'} {len(results)} - {name}")
    if not held:
        print("\n".join("# " + line for line in str(note).splitlines()))


def make(*words, cwd=ROOT):
    done = subprocess.run(["make", "--no-print-directory", *words], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=250)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def compiled(text):
    return re.findall(r"'(?:CC|AR|LINK|GEN)' '([^']*)'|^  (?:CC|AR|LINK|GEN) +(.*)$", text, re.M)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def includes(path, seen):
    """Every file of ours that `path` includes, itself or through others."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', read(os.path.join(ROOT, path)), re.M):
        for found in (os.path.normpath(os.path.join(os.path.dirname(path), name)), os.path.join("src", name)):
            if os.path.exists(os.path.join(ROOT, found)) and found not in seen:
                seen.add(found)
                includes(found, seen)
                break
    return seen


def whole_tree():
    code, text = make("-n", "all", "unit")
    check("after a build there is nothing to make", code == 0 and not compiled(text), text)

    os.chdir(ROOT)
    sources = glob.glob("src/*/*.c") + glob.glob("tests/*/*.c")
    readers = {s: includes(s, set()) for s in sources}
    for header in ("src/base/str.h", "src/runtime/kpk.h", "src/target/target.h", "src/cli/cli.h"):
        want = {s for s in sources if header in readers[s]}
        # What other tests build by themselves.
        want = {s for s in want if s.startswith("src/") or os.path.exists(f"out/obj/{s[:-2]}.o")}
        code, text = make("-n", "-W", header, "all", "unit")
        got = {a.replace(" (pic)", "") for a, _ in compiled(text) if a.split()[0].endswith(".c")}
        got = {g for g in got if not g.startswith("out/")}
        check(f"a change of {header} compiles its {len(want)} readers and nothing else",
              code == 0 and want and got == want, f"missing {sorted(want - got)}\nextra {sorted(got - want)}\n{text[-300:]}")
    code, text = make("-n", "-W", "lua/kpack.lua", "all")
    check("a change of the embedded language links the tool again", "out/bin/kpack" in text, text)
    code, text = make("-n", "-W", "src/cli/report/page.js", "all")
    check("a change of a report's script embeds it and its digest, and links the tool again",
          all(word in text for word in ("embed_report.c", "embed_report_digests.c", "out/bin/kpack")), text)
    code, text = make("-n", "images")
    check("make images packs and lists every target of targets/",
          all(f in text for name in glob.glob("targets/*.lua")
              for f in (name, name.replace("targets/", "out/").replace(".lua", ".kpk"))), text)


def small_tree(root):
    """src/runtime alone, built in a folder whose name has a space."""
    tree = os.path.join(root, "a tree")
    os.makedirs(tree)
    for name in ("Makefile", ".ci"):
        path = os.path.join(ROOT, name)
        (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(tree, name))
    for name in ("base", "runtime"):
        shutil.copytree(os.path.join(ROOT, "src", name), os.path.join(tree, "src", name))
    libs = ("out/lib/libkpk.a", "out/lib/libkpk.so")
    code, text = make("-j2", *libs, cwd=tree)
    check("make -j2 from clean builds the runtime", code == 0, text)
    count = len([1 for a, b in compiled(text) if "(pic)" in a + b])
    code, text = make(*libs, cwd=tree)
    check("a second make does nothing", code == 0 and not compiled(text), text)
    code, text = make(*libs, "CFLAGS=-DNOTHING", cwd=tree)
    check("other flags compile everything again", len([1 for _, b in compiled(text) if "(pic)" in b]) == count, text)
    make(*libs, cwd=tree)
    with open(os.path.join(tree, "src", "runtime", "kpk_extra.c"), "w", encoding="utf-8") as file:
        file.write("int kpk_extra(void);\nint kpk_extra(void)\n{\n    return 1;\n}\n")
    code, text = make(*libs, cwd=tree)
    check("a new source compiles itself and links", code == 0 and len(compiled(text)) == 3, text)
    os.remove(os.path.join(tree, "src", "runtime", "kpk_extra.c"))
    code, text = make(*libs, cwd=tree)
    members = subprocess.run(["ar", "t", os.path.join(tree, libs[0])], stdout=subprocess.PIPE).stdout.decode()
    check("a removed source leaves the library", code == 0 and "kpk_extra" not in members, text + members)
    for keep in ("cuda", "wheels", "tools", "sysroot-arm64", "obj"):
        os.makedirs(os.path.join(tree, "out", keep), exist_ok=True)
    code, text = make("clean", cwd=tree)
    check("make clean leaves only what was fetched", sorted(os.listdir(os.path.join(tree, "out"))) ==
          ["cuda", "sysroot-arm64", "tools", "wheels"], text)


JOBS = """include Makefile
show:
	@echo '$(filter -j%,$(MAKEFLAGS))'
	+@$(MAKE) --no-print-directory -f '$(firstword $(MAKEFILE_LIST))' again V=1
again:
	@echo '$(filter -j%,$(MAKEFLAGS))'
"""


def job_numbers(root):
    path = os.path.join(root, "jobs.mk")
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOBS)
    cores = str(len(os.sched_getaffinity(0)))
    for words, number in (((), cores), (("-j3",), "3"), (("-j", "3"), "3"), (("-kj1",), "1"), (("--jobs=5",), "5"), (("-j",), "")):
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        done = subprocess.run(["make", "-f", path, *words, "show"], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        check(f"{' '.join(('make', *words))} and what it starts run {number or 'any number of'} jobs",
              done.stdout.decode() == f"-j{number}\n" * 2, done.stdout.decode())


USER = """#include <kpk.h>
int main(void)
{
    kpk_image *image;
    return kpk_open("/nonexistent", NULL, &image) == KPK_ERR_IO ? 0 : 1;
}
"""


def installation(root):
    dest = os.path.join(root, "dest dir")
    code, text = make("install", f"DESTDIR={dest}", "PREFIX=/usr")
    check("make install", code == 0, text)
    want = ["bin/kpack", "include/kpk.h", "lib/libkpk.a", "lib/libkpk.so", "lib/libkpk_ops.so", "lib/pkgconfig/kpk.pc",
            "lib/pkgconfig/kpk_ops.pc", "include/kpk/ops/gdn.h", "include/kpk/ops/w8a16.h", "include/kpk/runtime/kpk.h",
            "share/man/man1/kpack.1"]
    base = os.path.join(dest, "usr")
    found = sorted(os.path.relpath(os.path.join(f, n), base) for f, _, names in os.walk(dest) for n in names)
    check("the tool, libraries, headers, pkg-config files and man page, all under DESTDIR and PREFIX",
          sorted(want) == found, found)
    version = subprocess.run([os.path.join(base, "bin", "kpack"), "--version"], cwd=root, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT).stdout.decode()
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(base, "lib", "pkgconfig"))

    def pkg_config(*words, name="kpk"):
        done = subprocess.run(["pkg-config", *words, name], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.stdout.decode().strip()

    check("kpk.pc and the tool give one version", pkg_config("--modversion") == version.split()[-1],
          version + pkg_config("--modversion"))
    make("install", f"PREFIX={root}/a prefix")
    env["PKG_CONFIG_PATH"] = os.path.join(root, "a prefix", "lib", "pkgconfig")
    with open(os.path.join(root, "user.c"), "w", encoding="utf-8") as file:
        file.write(USER)
    flags = shlex.split(pkg_config("--cflags", "--libs"))
    built = subprocess.run(["gcc", "user.c", "-o", "user", *flags], cwd=root, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    ran = subprocess.run(["./user"], cwd=root, env=dict(env, LD_LIBRARY_PATH=os.path.join(root, "a prefix", "lib"))
                         ) if built.returncode == 0 else built
    check("a program builds against the shared library with pkg-config, and runs", ran.returncode == 0, built.stdout)
    with open(os.path.join(root, "ops.c"), "w", encoding="utf-8") as file:
        file.write("#include <ops/gdn.h>\n#include <ops/w8a16.h>\n" + USER.replace("main(void)\n{", "main(void)\n{\n"
                   "    struct w8a16 ops;\n    if (w8a16_bind(NULL, NULL, &ops) != KPK_ERR_ARGUMENT)\n        return 1;"))
    flags = shlex.split(pkg_config("--cflags", "--libs", name="kpk_ops"))
    built = subprocess.run(["gcc", "ops.c", "-o", "ops", *flags], cwd=root, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    ran = subprocess.run(["./ops"], cwd=root, env=dict(env, LD_LIBRARY_PATH=os.path.join(root, "a prefix", "lib"))
                         ) if built.returncode == 0 else built
    check("a program builds against the launchers with pkg-config, and runs", ran.returncode == 0, built.stdout)
    flags = shlex.split(pkg_config("--cflags", "--libs", "--static").replace("-lkpk", "-l:libkpk.a"))
    built = subprocess.run(["gcc", "user.c", "-o", "user", *flags], cwd=root, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    ran = subprocess.run(["./user"], cwd=root) if built.returncode == 0 else built
    check("a program builds against the static library with pkg-config, and runs", ran.returncode == 0, built.stdout)


def bundle(root):
    # Of the images as they are: `make test` has just packed them.
    code, text = make("-o", "images", "gpu-bundle")
    check("make gpu-bundle", code == 0, text)
    measured, said = make("out/obj/loader", "out/bench/open")
    check("the other programs of make gpu-load build", measured == 0, said)
    if code != 0:
        return
    made = os.path.join(ROOT, "out", "gpu")
    size = sum(os.path.getsize(os.path.join(f, n)) for f, _, names in os.walk(made) for n in names)
    check("the bundle is under 16 MiB", 0 < size < 16 << 20, size)
    moved = os.path.join(root, "moved")
    shutil.copytree(made, moved)
    load = "import ctypes, sys; print(hex(ctypes.CDLL(sys.argv[1]).w8a16_bind and 1))"
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", load, os.path.join(moved, "lib", "libkpk_ops.so")], cwd=root, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check("its launchers find the runtime beside themselves", done.returncode == 0, done.stdout.decode())
    for name in ("libkpk.so", "libkpk_ops.so"):
        text = subprocess.run(["objdump", "-p", os.path.join(moved, "lib", name)], stdout=subprocess.PIPE).stdout.decode()
        needed = set(re.findall(r"NEEDED +(\S+)", text))
        allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libkpk.so", "ld-linux-x86-64.so.2",
                   "ld-linux-aarch64.so.1"}
        check(f"{name} needs glibc and nothing else", needed and needed <= allowed, needed)
    done = subprocess.run([os.path.join(moved, "tests", "gpu", "run")], cwd=root, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200)
    last = done.stdout.decode().splitlines()[-1]
    check("its tests start where they were copied to", re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", last), last)


if os.environ.get("KPACK_TEST_OUT"):
    print("1..0 # SKIP another build alone is tested")
    sys.exit(0)
whole_tree()
with tempfile.TemporaryDirectory() as work:
    small_tree(work)
with tempfile.TemporaryDirectory() as work:
    job_numbers(work)
with tempfile.TemporaryDirectory() as work:
    installation(work)
with tempfile.TemporaryDirectory() as work:
    bundle(work)
print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
