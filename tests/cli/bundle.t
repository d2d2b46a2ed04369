#!/usr/bin/env python3
"""bundle, every command that reads one, and fatbins out of it."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import ROOT, Folder, Skip, binary, check, environment, golden, kpack, main, read, same, test, write
from images import CUBIN, ENTRIES, OTHER_CUBIN, describe, module, patched

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
from read_kpk import open_parts  # noqa: E402

CUBIN_80 = os.path.join(ROOT, "tests", "golden", "cubins", "nvrtc130-sm_80.cubin")
FETCH = os.path.join(ROOT, "tests", "tools", "fetch-cuda-tool")
PAGE = 4096
LOOKUPS = "\n".join(("both:stack", "own:stack", ""))
# What varies with zstd.
PACKED = [(r"[\d.]+ KiB", "N KiB"), (r"\d+ B\b", "N B"), (r"in \d+ groups?", "in N groups"), (r"\d+\.\d%", "P%")]


def run(folder, *args, **more):
    return kpack(*args, cwd=folder, **more)


def images(folder):
    """near.kpk and far.kpk: both have `both`, far alone has `own`."""
    describe(folder, "near", target="near", arch="sm_80", modules=[module("both", CUBIN_80, ENTRIES)],
             levers=[{"name": "fast", "env": "FAST", "kind": 0, "on": True}])
    describe(folder, "far", target="far", arch="sm_90a",
             modules=[module("both", entries=ENTRIES), module("own", OTHER_CUBIN, ["stack"])])


def bundle(folder, *names, out="all.kpk"):
    images(folder)
    result = run(folder, "bundle", "-o", out, *(names or ("near.kpk", "far.kpk")))
    same(result.status, 0, result)
    return result


@test("the parts are the images, byte for byte, in whatever order they come")
def _():
    with Folder() as folder:
        result = bundle(folder)
        check(result.out.startswith("all.kpk: 2 targets, "), result)
        parts = open_parts(read(f"{folder}/all.kpk"))
        same([name for name, _ in parts], ["far", "near"])
        for name, offset in parts:
            bytes_ = read(f"{folder}/{name}.kpk")
            same(offset % PAGE, 0)
            same(read(f"{folder}/all.kpk")[offset:offset + len(bytes_)], bytes_)
            for words in (("-o", "again.kpk"), ()):
                same(run(folder, "extract", "all.kpk", f"--target={name}", *words).status, 0)
                same(read(f"{folder}/{'again' if words else name}.kpk"), bytes_)
        run(folder, "bundle", "-o", "other.kpk", "far.kpk", "near.kpk")
        same(read(f"{folder}/other.kpk"), read(f"{folder}/all.kpk"))


@test("a bundle that would not change is left alone; one among the images stands for its parts")
def _():
    with Folder() as folder:
        bundle(folder)
        before = os.stat(f"{folder}/all.kpk").st_mtime_ns
        result = run(folder, "bundle", "-o", "all.kpk", "far.kpk", "near.kpk")
        check("not changed" in result.out, result)
        same(os.stat(f"{folder}/all.kpk").st_mtime_ns, before)
        describe(folder, "third", target="third", arch="sm_100f", modules=[module("both", entries=ENTRIES)])
        run(folder, "bundle", "-o", "a.kpk", "all.kpk", "third.kpk")
        run(folder, "bundle", "-o", "b.kpk", "third.kpk", "near.kpk", "far.kpk")
        same(read(f"{folder}/a.kpk"), read(f"{folder}/b.kpk"))
        same(run(folder, "bundle", "-o", "one.kpk", "near.kpk").status, 0)
        same(run(folder, "verify", "one.kpk").status, 0)
        golden("bundle-whole.txt", run(folder, "extract", "one.kpk", "both"))


@test("bundle never writes over what it reads, under whatever name")
def _():
    with Folder() as folder:
        bundle(folder)
        os.symlink("near.kpk", f"{folder}/soft.kpk")
        os.link(f"{folder}/far.kpk", f"{folder}/hard.kpk")
        kept = {name: read(f"{folder}/{name}") for name in ("near.kpk", "far.kpk", "all.kpk")}
        describe(folder, "third", target="third", arch="sm_100f", modules=[module("both", entries=ENTRIES)])
        for out, names in (("near.kpk", ("near.kpk", "far.kpk")), ("soft.kpk", ("near.kpk", "far.kpk")), ("./hard.kpk", ("near.kpk", "far.kpk")),
                           ("all.kpk", ("third.kpk", "all.kpk")), ("all.kpk", ("all.kpk",))):
            result = run(folder, "bundle", "-o", out, *names)
            same((result.status, result.out), (1, ""), out)
            check(f"'{out}' is the image itself: give what is written another name" in result.err, result)
        same({name: read(f"{folder}/{name}") for name in kept}, kept)


@test("two images for one target or one arch are refused, both named")
def _():
    with Folder() as folder:
        bundle(folder)
        describe(folder, "twice", target="near", arch="sm_86", modules=[module("both", CUBIN_80, ENTRIES)])
        describe(folder, "arch", target="other", arch="sm_90a", modules=[module("both", entries=ENTRIES)])
        golden("bundle-target.txt", run(folder, "bundle", "-o", "x.kpk", "near.kpk", "twice.kpk"))
        golden("bundle-arch.txt", run(folder, "bundle", "-o", "x.kpk", "all.kpk", "arch.kpk"))
        check(not os.path.exists(f"{folder}/x.kpk"))


@test("damage is not bundled, and no other file is replaced")
def _():
    with Folder() as folder:
        bundle(folder)
        bad = bytearray(read(f"{folder}/near.kpk"))
        bad[-1] ^= 1
        write(f"{folder}/bad.kpk", bad)
        write(f"{folder}/text", "precious")
        for words in (("-o", "x.kpk", "far.kpk", "bad.kpk"), ("-o", "text", "far.kpk"), ("-o", "x.kpk", "text"),
                      ("-o", "x.kpk", "missing.kpk")):
            result = run(folder, "bundle", *words)
            same((result.status, result.out), (1, ""), words)
            check(words[-1] in result.err or "text" in result.err, result)
        same(read(f"{folder}/text"), b"precious")
        check(not os.path.exists(f"{folder}/x.kpk"))


# ---- The commands that read images --------------------------------------------------------------------

@test("list, show, size and verify go through the parts")
def _():
    with Folder() as folder:
        bundle(folder)
        golden("bundle-list.txt", run(folder, "list", "all.kpk"), PACKED)
        golden("bundle-show.txt", run(folder, "show", "all.kpk", "both:stack"), PACKED)
        golden("bundle-show-one.txt", run(folder, "show", "all.kpk", "own:stack"), PACKED)
        golden("bundle-show-none.txt", run(folder, "show", "all.kpk", "oown"), PACKED)
        golden("bundle-verify.txt", run(folder, "verify", "all.kpk"), PACKED)
        golden("bundle-size.txt", run(folder, "size", "all.kpk"), PACKED + [(r" +", " "), (r"#+", "#")])


@test("with --target a part is an image like any other, in text and in JSON")
def _():
    with Folder() as folder:
        bundle(folder)
        write(f"{folder}/lookups.txt", LOOKUPS)
        for name in ("near", "far"):
            for words in (("list",), ("show", "both"), ("size",), ("verify",), ("coverage",), ("audit",)):
                more = ["--lookups=lookups.txt"] if words == ("audit",) else []
                for json_ in ([], ["--json"]):
                    whole = run(folder, words[0], *more, *json_, f"{name}.kpk", *words[1:])
                    part = run(folder, words[0], *more, *json_, f"--target={name}", "all.kpk", *words[1:])
                    same((part.out.replace(f"all.kpk[{name}]", f"{name}.kpk"), part.status), (whole.out, whole.status))
            # An image by itself has a target as well.
            same(run(folder, "list", f"--target={name}", f"{name}.kpk").out, run(folder, "list", f"{name}.kpk").out)
        golden("bundle-no-target.txt", run(folder, "list", "--target=naer", "all.kpk"))
        golden("bundle-other-target.txt", run(folder, "list", "--target=far", "near.kpk"))


@test("the JSON of a bundle has its parts by target")
def _():
    with Folder() as folder:
        bundle(folder)
        write(f"{folder}/lookups.txt", "both:stack\n")
        for words in (("list",), ("show", "both"), ("size",), ("verify",), ("audit", "--lookups=lookups.txt")):
            command, *more = words
            options = [w for w in more if w.startswith("-")]
            rest = [w for w in more if not w.startswith("-")]
            result = run(folder, command, "--json", *options, "all.kpk", *rest)
            same(result.status, 0, words)
            parts = json.loads(result.out)["parts"]
            same(list(parts), ["far", "near"])
            for name, value in parts.items():
                single = json.loads(run(folder, command, "--json", *options, f"--target={name}", "all.kpk", *rest).out)
                same(value, single, words)
        found = json.loads(run(folder, "show", "--json", "all.kpk", "own").out)["parts"]
        same((found["near"], found["far"]["name"]), (None, "own"))


@test("verify finds damage in a part, in the table and between the parts")
def _():
    with Folder() as folder:
        bundle(folder)
        good = read(f"{folder}/all.kpk")
        (_, far), (_, near) = open_parts(good)
        for at, what in ((400, "table"), (far - 1, "between"), (near - 1, "between"), (far + 100, "far"), (len(good) - 1, "near")):
            bad = bytearray(good)
            bad[at] ^= 1
            write(f"{folder}/bad.kpk", bad)
            result = run(folder, "verify", "bad.kpk")
            same((result.status, result.out), (1, ""), at)
            check(what in result.err, result)
            # What is not touched still works.
            other = {"far": "near", "near": "far", "between": "near"}.get(what)
            if other:
                same(run(folder, "verify", f"--target={other}", "bad.kpk").status, 0)
        for size in (383, 400, far, len(good) - 1):
            write(f"{folder}/bad.kpk", good[:size])
            same(run(folder, "verify", "bad.kpk").status, 1)


@test("audit checks every part, and fails when one lacks an entry")
def _():
    with Folder() as folder:
        bundle(folder)
        write(f"{folder}/lookups.txt", LOOKUPS)
        golden("bundle-audit.txt", run(folder, "audit", "--lookups=lookups.txt", "all.kpk"))
        value = json.loads(run(folder, "audit", "--json", "--lookups=lookups.txt", "all.kpk").out)["parts"]
        same((value["far"]["failed"], value["near"]["failed"]), ([], ["undeclared"]))


@test("coverage takes the parts as images")
def _():
    with Folder() as folder:
        bundle(folder)
        whole = json.loads(run(folder, "coverage", "--json", "all.kpk").out)
        apart = json.loads(run(folder, "coverage", "--json", "far.kpk", "near.kpk").out)
        same([i["image"] for i in whole["images"]], ["all.kpk[far]", "all.kpk[near]"])
        same((whole["parents"], whole["constants"]), (apart["parents"], apart["constants"]))
        result = run(folder, "coverage", *["all.kpk"] * 7)
        same(result.status, 1)
        check("more than 12 images, with the parts of bundles" in result.err, result)


# ---- diff -------------------------------------------------------------------------------------------

@test("diff compares bundles part by part, and names the targets that one side lacks")
def _():
    with Folder() as folder:
        bundle(folder)
        describe(folder, "far2", target="far", arch="sm_90a",
                 modules=[module("both", patched(folder, "p.cubin", "stack"), ENTRIES)])
        describe(folder, "third", target="third", arch="sm_100f", modules=[module("both", entries=ENTRIES)])
        same(run(folder, "bundle", "-o", "new.kpk", "far2.kpk", "third.kpk").status, 0)
        result = run(folder, "diff", "all.kpk", "new.kpk")
        golden("bundle-diff.txt", result, PACKED)
        result = run(folder, "diff", "--fail-on=removed,added", "all.kpk", "new.kpk")
        same(result.status, 1)
        for line in ("all.kpk[near]: error: '--fail-on removed': target 'near' is removed as a whole",
                     "new.kpk[third]: error: '--fail-on added': target 'third' is added as a whole",
                     "new.kpk[far]: error: '--fail-on removed': module 'own'"):
            check(any(part in result.err for part in (line, line.replace(": error", ""))), line, result.err)
        parts = json.loads(run(folder, "diff", "--json", "--fail-on=removed", "all.kpk", "new.kpk").out)["parts"]
        same(list(parts), ["far", "near", "third"])
        same((parts["near"]["after"], parts["third"]["before"]), (None, None))
        same([p["failed"] for p in parts.values()], [["removed"], ["removed"], []])
        same(run(folder, "diff", "--fail-on=removed,added,code", "all.kpk", "all.kpk").status, 0)


@test("diff of a bundle and an image takes the image as a part")
def _():
    with Folder() as folder:
        bundle(folder)
        parts = json.loads(run(folder, "diff", "--json", "all.kpk", "near.kpk").out)["parts"]
        same((parts["near"]["differences"], parts["far"]["after"]), ([], None))
        apart = run(folder, "diff", "--target=near", "all.kpk", "near.kpk")
        check("0 differences" in apart.out and apart.status == 0, apart)


# ---- extract ----------------------------------------------------------------------------------------

@test("extract takes a cubin from the part that is named")
def _():
    with Folder() as folder:
        bundle(folder)
        same(run(folder, "extract", "all.kpk", "both", "--target=near").status, 0)
        same(read(f"{folder}/both.cubin"), read(CUBIN_80))
        same(run(folder, "extract", "all.kpk", "both", "--target=far", "-o", "x.cubin").status, 0)
        same(read(f"{folder}/x.cubin"), read(CUBIN))
        golden("bundle-extract.txt", run(folder, "extract", "all.kpk", "both"))
        write(f"{folder}/far.kpk", "not an image")
        write(f"{folder}/text", "precious")
        same(run(folder, "extract", "all.kpk", "--target=far", "-o", "text").status, 1)
        same(read(f"{folder}/text"), b"precious")
        describe(folder, "up", target="../up", modules=[module("m")])
        result = run(folder, "extract", "up.kpk", "--target=../up")
        check(result.status == 1 and "is no safe file name" in result.err, result)


@test("extract never writes over what it reads, under whatever name")
def _():
    with Folder() as folder:
        bundle(folder)
        before = read(f"{folder}/all.kpk")
        os.symlink(".", f"{folder}/here")
        for name in ("hard.kpk", "all.cubin", "all.fatbin"):
            os.link(f"{folder}/all.kpk", f"{folder}/{name}")
        for words in (("all.kpk", "--target=far", "-o", "all.kpk"), ("all.kpk", "--target=far", "-o", "hard.kpk"),
                      ("here/all.kpk", "--target=far", "-o", "all.kpk"), ("near.kpk", "--target=near"),
                      ("all.kpk", "both", "--target=far", "-o", "all.cubin"),
                      ("--fatbin", "near.kpk", "all.kpk", "own", "-o", "all.fatbin")):
            result = run(folder, "extract", *words)
            same((result.status, result.out), (1, ""), words)
            check("is the image itself: give what is written another name" in result.err, result)
            for name in ("all.kpk", "hard.kpk", "all.cubin", "all.fatbin"):
                same(read(f"{folder}/{name}"), before, words)


def nvidia(tool):
    """NVIDIA's tool of that name."""
    done = subprocess.run([FETCH, tool], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.strip())
    return os.path.join(ROOT, done.stdout.strip())


def toolkit():
    """A folder with the real fatbinary."""
    return os.path.dirname(os.path.dirname(os.path.realpath(nvidia("fatbinary"))))


@test("cuobjdump lists a fatbin's members with their archs, and gives the very cubins back")
def _():
    with Folder() as folder:
        bundle(folder)
        where, tool = toolkit(), nvidia("cuobjdump")
        describe(folder, "third", target="third", arch="sm_80", modules=[module("alone", CUBIN_80, ENTRIES)])
        for words in (("all.kpk",), ("near.kpk", "far.kpk")):
            result = run(folder, "extract", "--fatbin", f"--cuda={where}", *words, "both")
            same(result.status, 0, result)
            for arch in ("sm_80", "sm_90a"):
                check(f"  {arch} of " in result.out, result)
            said = subprocess.run([tool, "--list-elf", "both.fatbin"], cwd=folder, text=True, stdout=subprocess.PIPE, check=True)
            same(sorted(line.split(".")[-2] for line in said.stdout.splitlines()), ["sm_80", "sm_90a"])
        subprocess.run([tool, "-xelf", "all", "both.fatbin"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        same(sorted(read(f"{folder}/{n}") for n in os.listdir(folder) if n.startswith("both.") and n.endswith(".cubin")),
             sorted([read(CUBIN), read(CUBIN_80)]))
        # An image without the module is named, and does not count.
        result = run(folder, "extract", "--fatbin", f"--cuda={where}", "all.kpk", "own", "-o", "x.fatbin")
        same(result.status, 0, result)
        check("all.kpk[near]" in result.err and "no module 'own'" in result.err, result)
        same(os.listdir(folder).count("own.fatbin"), 0)


def fake_tool(folder, text):
    """A folder with a fatbinary of ours."""
    path = write(os.path.join(folder, "cuda", "bin", "fatbinary"), "#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return os.path.join(folder, "cuda")


@test("what goes wrong with fatbinary is told, and nothing stays behind")
def _():
    with Folder() as folder:
        bundle(folder)
        os.mkdir(f"{folder}/tmp")
        env = {"TMPDIR": f"{folder}/tmp"}
        cases = {"fails": "printf '\\nno such thing\\nmore\\n' >&2; exit 3\n", "dies": "kill -9 $$\n", "writes-nothing": "exit 0\n"}
        for name, text in cases.items():
            cuda = fake_tool(folder, text)
            result = run(folder, "extract", "--fatbin", f"--cuda={cuda}", "all.kpk", "both", env=env)
            golden(f"fatbin-{name}.txt", result, [(folder, "DIR"), (r"fatbin-\w{6}", "fatbin-X")])
        os.mkdir(f"{folder}/a,b")
        result = run(folder, "extract", "--fatbin", f"--cuda={cuda}", "all.kpk", "both", env={"TMPDIR": f"{folder}/a,b"})
        check(result.status == 1 and "has a comma" in result.err and "TMPDIR" in result.err, result)
        same(os.listdir(f"{folder}/tmp") + os.listdir(f"{folder}/a,b"), [])
        golden("fatbin-no-tool.txt", run(folder, "extract", "--fatbin", "--cuda=tmp", "all.kpk", "both"))
        golden("fatbin-no-module.txt", run(folder, "extract", "--fatbin", f"--cuda={cuda}", "all.kpk", "botth"))
        golden("fatbin-arch-twice.txt", run(folder, "extract", "--fatbin", f"--cuda={cuda}", "all.kpk", "near.kpk", "both"))
        check(not os.path.exists(f"{folder}/both.fatbin"))


@test("a signal ends it and fatbinary, and leaves no folder")
def _():
    with Folder() as folder:
        bundle(folder)
        os.mkdir(f"{folder}/tmp")
        cuda = fake_tool(folder, "echo $$ >pid.new; mv pid.new pid; exec sleep 60\n")
        for signal_ in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            words = [binary(), "extract", "--fatbin", f"--cuda={cuda}", "all.kpk", "both"]
            with subprocess.Popen(words, cwd=folder, env=environment({"TMPDIR": f"{folder}/tmp"})) as process:
                until = time.monotonic() + 20
                while not os.path.exists(f"{folder}/pid") and time.monotonic() < until:
                    time.sleep(0.01)
                process.send_signal(signal_)
                same(process.wait(20), -signal_)
            check(not os.path.exists(f"/proc/{int(read(f'{folder}/pid'))}"), "fatbinary goes on")
            os.remove(f"{folder}/pid")
            same((os.listdir(f"{folder}/tmp"), os.path.exists(f"{folder}/both.fatbin")), ([], False))


@test("an arch that is none does not reach fatbinary")
def _():
    with Folder() as folder:
        cuda = fake_tool(folder, "touch ran\n")
        for arch in ("x", "sm_", "sm_90b", "sm_90aa", "sm_90,file=/etc/passwd", "sm_90 "):
            describe(folder, "odd", arch=arch, modules=[module("m", entries=ENTRIES)])
            result = run(folder, "extract", "--fatbin", f"--cuda={cuda}", "odd.kpk", "m")
            same((result.status, result.out), (1, ""), arch)
            check(f"odd.kpk: is for '{arch}', which is no architecture" in result.err, result)
        same((os.path.exists(f"{folder}/ran"), os.path.exists(f"{folder}/m.fatbin")), (False, False))


@test("fatbinary is found on PATH, and its absence is told")
def _():
    with Folder() as folder:
        bundle(folder)
        cuda = fake_tool(folder, 'for a; do case $a in --create=*) printf made > "${a#--create=}";; esac; done\n')
        os.mkdir(f"{folder}/none")
        # A CUDA without the program, as wheels of NVRTC alone are: a build would use it.
        shutil.copytree(os.path.join(ROOT, "out", "fake", "nvrtc"), f"{folder}/wheels")
        env = {"CUDA_HOME": f"{folder}/wheels", "PATH": f"{cuda}/bin:/usr/bin:/bin"}
        result = run(folder, "extract", "--fatbin", "all.kpk", "both", env=env)
        same((result.status, read(f"{folder}/both.fatbin")), (0, b"made"))
        env["PATH"] = f"{folder}/none"
        result = run(folder, "extract", "--fatbin", "all.kpk", "both", env=env)
        golden("fatbin-no-path.txt", result, [(folder, "DIR")])


@test("a module with a cubin for each entry needs the entry's name")
def _():
    with Folder() as folder:
        entries = [{"name": n, "object": i} for i, n in enumerate(ENTRIES)]
        describe(folder, "split", target="split", modules=[{"name": "m", "cubins": [CUBIN, OTHER_CUBIN, CUBIN], "entries": entries}])
        cuda = fake_tool(folder, 'for a; do case $a in --create=*) printf made > "${a#--create=}";; esac; done\n')
        result = run(folder, "extract", "--fatbin", f"--cuda={cuda}", "split.kpk", "m")
        check(result.status == 1 and "name an entry, such as 'm:plain'" in result.err, result)
        same(run(folder, "extract", "--fatbin", f"--cuda={cuda}", "split.kpk", "m:stack").status, 0)
        same(read(f"{folder}/m.stack.fatbin"), b"made")


main()
