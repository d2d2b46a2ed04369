#!/usr/bin/env python3
"""build with a fake NVRTC: what is written, what is checked, what is said."""
import glob
import json
import os
import re
import resource
import shutil
import subprocess

from harness import Folder, check, golden, kpack, main, read, same, test, write
from project import CUBIN, FAKE, GOOD, build, entry, left_behind, listing, module, source, target, tiny

# What varies: time, and bytes that depend on zstd's version.
SECONDS = (r"\d+\.\d s\b", "N s")
PACKED = (r"[\d.]+ KiB packed", "N packed")
VARIES = [SECONDS, PACKED]


def ptxas(name, stores, loads):
    return (f"fake log ptxas info    : Compiling entry function '{name}' for 'sm_90a'",
            f"fake log ptxas info    : Function properties for {name}",
            f"fake log     0 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads",
            "fake log ptxas info    : Used 8 registers, used 0 barriers")


@test("a build writes the image and its sidecar, and sums up")
def _():
    with Folder() as folder:
        tiny(folder, module("m", 'k.entry "plain" { block = {32, 4, 2}, smem = 1024 }', "tile = { N = 4 },"))
        golden("build-tiny.txt", build(folder), VARIES)
        same(sorted(os.listdir(f"{folder}/out")), ["tiny.kpk", "tiny.kpk.json"])
        image = listing(folder)
        same((image["target"], image["arch"], image["compute"], image["nvrtc"], image["raw_bytes"]),
             ("tiny", "sm_90a", "9.0", "13.0", os.path.getsize(CUBIN)))
        same(image["modules"][0]["constants"], {"N": 4})
        same(entry(folder), {
            "name": "plain", "symbol": "plain", "block": [32, 4, 2], "dynamic_smem": 1024, "static_smem": 0, "registers": 8,
            "spill_bytes": None, "stack_bytes": 0, "code_bytes": 384, "twin_of": None, "bits": None})
        same(kpack("verify", "out/tiny.kpk", cwd=folder).status, 0)


@test("the word build may be there, and options may come first")
def _():
    with Folder() as folder:
        tiny(folder)
        cuda = ("--cuda", FAKE)
        for args in (("build", "tiny.lua", *cuda), ("-j2", "tiny.lua", *cuda), ("tiny.lua", *cuda, "-j", "2"),
                     ("build", "-k", *cuda, "tiny.lua", "-v"), ("--progress=none", *cuda, "tiny.lua"),
                     (*cuda, "--", "tiny.lua")):
            result = kpack(*args, cwd=folder)
            same(result.status, 0, args, result)
            os.remove(f"{folder}/out/tiny.kpk")


@test("an entry that was not compiled: its place and the nearest name")
def _():
    with Folder() as folder:
        tiny(folder, module("m", '"plan"'), module("n", '"elsewhere"'), module("o", '"templated"'),
             module("p", '"static_smem", "stacc"'))
        golden("build-missing.txt", build(folder, "tiny.lua", "-j1"), VARIES)
        check(not os.path.exists(f"{folder}/out/tiny.kpk"))


@test("limits, sizes, blocks and twins that do not hold")
def _():
    with Folder() as folder:
        lines = [
            module("a", 'k.entry "stack" { limits = { registers = 69, stack_bytes = 255 } }'),
            module("b", 'k.entry "static_smem" { limits = { static_smem = 1199 } }'),
            module("c", 'k.entry "static_smem" { static_smem = 1204 }'),
            module("d", 'k.entry "static_smem" { smem = 98801 }'),
            module("e", 'k.entry "stack" { block = { 16, 17, 1 } }'),
            module("f", 'k.entry "plain" { limits = { spill_bytes = 11 } }'),
            module("g", 'k.entry "plain" { limits = { spill_bytes = 0 } }'),
            module("h", 'k.entry "plain" { smem = 2048, limits = { dynamic_smem = 2047, code_bytes = 383 } }'),
        ]
        tiny(folder, *lines, more="device = { smem_optin = 100000 },")
        source(folder, "f", *ptxas("plain", 4, 8), GOOD)
        golden("build-limits.txt", build(folder, "tiny.lua", "-j1"), VARIES)
        same(os.listdir(f"{folder}/out"), [])


@test("the same limits and sizes, just met")
def _():
    with Folder() as folder:
        tiny(folder,
             module("a", 'k.entry "stack" { limits = { registers = 70, stack_bytes = 256 } }'),
             module("b", 'k.entry "static_smem" { smem = 98800, static_smem = 1200,'
                         ' limits = { static_smem = 1200 } }'),
             module("e", 'k.entry "stack" { block = { 16, 16, 1 } }'),
             module("f", 'k.entry "plain" { limits = { spill_bytes = 12 } }'),
             module("h", 'k.entry "stack" { smem = 2048,'
                         ' limits = { dynamic_smem = 2048, code_bytes = 3000, seconds = 60 } }'),
             more="device = { smem_optin = 100000 },")
        source(folder, "f", *ptxas("plain", 4, 8), GOOD)
        result = build(folder)
        same(result.status, 0, result)
        same(entry(folder)["spill_bytes"], 12)


@test("twins are recorded; one of an entry that is not shipped is an error")
def _():
    with Folder() as folder:
        every = 'k.module "a" { source = "kernels/a.cu", entries = k.every }'
        twin = module("b", 'k.entry "plain" { twin_of = "a:WHO", bits = "same" }')
        tiny(folder, every, twin.replace("WHO", "stack"))
        result = build(folder)
        same(result.status, 0, result)
        plain = [m for m in listing(folder)["modules"] if m["name"] == "b"][0]["entries"][0]
        same((plain["twin_of"], plain["bits"]), ("a:stack", "same"))
    with Folder() as folder:
        tiny(folder, every, twin.replace("WHO", "stak"))
        golden("build-twin.txt", build(folder, "tiny.lua", "-j1", "--no-cache"), VARIES)


@test("k.every takes all entries, and says nothing of block and shared memory")
def _():
    with Folder() as folder:
        tiny(folder, 'k.module "m" { source = "kernels/m.cu", entries = k.every }')
        same(build(folder, "tiny.lua", "-v").err.count("note"), 0)
        entries = listing(folder)["modules"][0]["entries"]
        same([e["name"] for e in entries], ["_Z9templatedILi3EEvPf", "plain", "stack", "static_smem"])
        same({(e["block"], e["dynamic_smem"]) for e in entries}, {(None, None)})


@test("-v notes entries that no description declares, and the NVRTC used")
def _():
    with Folder() as folder:
        tiny(folder, module("m", '"plain", "stack"'))
        golden("build-verbose.txt", build(folder, "tiny.lua", "-v"), [*VARIES, (FAKE, "CUDA")])


@test("-q prints nothing but errors")
def _():
    with Folder() as folder:
        tiny(folder)
        result = build(folder, "tiny.lua", "-q")
        same((result.status, result.out, result.err), (0, "", ""))
        tiny(folder, module("m", '"plan"'))
        result = build(folder, "tiny.lua", "-q")
        same((result.status, result.out), (1, ""))
        check(result.err.startswith("kpack: error: tiny.lua:4:") and "[1/1]" not in result.err, result)


@test("past the limit of a file's size, the old image stays and no half file is left")
def _():
    with Folder() as folder:
        tiny(folder)
        same(build(folder).status, 0)
        old = read(f"{folder}/out/tiny.kpk")
        tiny(folder, module("m", more="tile = { N = 1 },"))
        result = build(folder, "tiny.lua", "--no-cache",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
        same(result.status, 1, result)
        check("cannot write " in result.err and "tiny.kpk': File too large" in result.err, result)
        same((read(f"{folder}/out/tiny.kpk"), left_behind(folder)), (old, []))


@test("a build that changes nothing keeps the image's time")
def _():
    with Folder() as folder:
        tiny(folder)
        image = f"{folder}/out/tiny.kpk"
        build(folder)
        os.utime(image, ns=(10**18, 10**18))
        source(folder, "m", "// a comment", GOOD)
        result = build(folder)
        check("unchanged" in result.out, result)
        same(os.stat(image).st_mtime_ns, 10**18)
        tiny(folder, module("m", '"stack"'))
        check("unchanged" not in build(folder).out)
        check(os.stat(image).st_mtime_ns != 10**18)
        same([e["name"] for e in listing(folder)["modules"][0]["entries"]], ["stack"])


@test("the same bytes with any number of workers, in any folder, at any time")
def _():
    images = set()
    for number, (name, jobs) in enumerate((("one", "1"), ("two and more", "8"), ("thr\u00e9\u00e9", "3"))):
        with Folder(name) as folder:
            tiny(folder, *(module(f"m{i}", '"plain"', f"tile = {{ N = {i} }},") for i in range(9)))
            for i in range(9):
                source(folder, f"m{i}", f"fake sleep {(i * 7 + number * 5) % 30}", GOOD)
                os.utime(f"{folder}/kernels/m{i}.cu", (number * 10**8, i * 10**8))
            result = build(folder, "tiny.lua", "-j", jobs,
                           env={"TZ": f"UTC{number}", "SOURCE_DATE_EPOCH": str(number), "LC_ALL": "C"})
            same(result.status, 0, result)
            images.add(read(f"{folder}/out/tiny.kpk"))
    same(len(images), 1)


@test("-o and --out say where; messages name the path from here")
def _():
    with Folder() as folder:
        tiny(folder)
        os.makedirs(f"{folder}/here")
        same(build(folder, "tiny.lua", "-o", "here/x.img").status, 0)
        result = build(folder, "tiny.lua", "--out", "a/b/c")
        check(result.out.startswith("a/b/c/tiny.kpk: "), result)
        result = build(f"{folder}/here", "../tiny.lua")
        check(result.out.startswith(f"{folder}/out/tiny.kpk: "), result)
        same(sorted(os.listdir(f"{folder}/here")), ["x.img", "x.img.json"])
        same(read(f"{folder}/here/x.img"), read(f"{folder}/a/b/c/tiny.kpk"))
        same(read(f"{folder}/here/x.img"), read(f"{folder}/out/tiny.kpk"))


@test("a description in targets/ has its root above it")
def _():
    with Folder() as folder:
        tiny(folder)
        os.mkdir(f"{folder}/targets")
        os.rename(f"{folder}/tiny.lua", f"{folder}/targets/tiny.lua")
        result = build(folder, "targets/tiny.lua")
        check(result.out.startswith("out/tiny.kpk: "), result)


@test("places that cannot be written are refused before anything is compiled")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/file", "kept")
        os.makedirs(f"{folder}/full/tiny.kpk/x")
        os.mkfifo(f"{folder}/fifo")
        cases = (("out-file", ("--out", "file")), ("out-under-file", ("--out", "file/deeper")),
                 ("file-missing", ("-o", "missing/x.kpk")), ("file-under-file", ("-o", "file/x.kpk")),
                 ("file-folder", ("-o", "full")), ("file-fifo", ("-o", "fifo")), ("image-folder", ("--out", "full")))
        for name, args in cases:
            result = build(folder, "tiny.lua", *args)
            check("[1/1]" not in result.err, result)
            golden(f"build-{name}.txt", result, VARIES)
        same(read(f"{folder}/file"), b"kept")
        write(f"{folder}/out", "kept")
        golden("build-out-is-file.txt", build(folder), [(folder, "ROOT")])


@test("two targets at once, and two that would write the same image")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/more.lua", target([module("m", '"stack"')], name="more", arch="sm_80"))
        write(f"{folder}/twice.lua", target([module("m")]))
        golden("build-two.txt", build(folder, "tiny.lua", "more.lua", "-j1"), VARIES)
        same(listing(folder, "out/more.kpk")["arch"], "sm_80")
        golden("build-same-image.txt", build(folder, "tiny.lua", "twice.lua"), VARIES)


@test("every mistake of every description is shown, and nothing is built")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/a.lua", target([module("m", more="tiles = {},")], name="a"))
        write(f"{folder}/b.lua", target([module("m", more="flag = {},")], name="b"))
        result = build(folder, "a.lua", "tiny.lua", "b.lua", "missing.lua")
        same((result.status, result.out), (1, ""))
        for word in ("tiles", "flag", "missing.lua"):
            check(word in result.err, result)
        check(not os.path.exists(f"{folder}/out/tiny.kpk"))
        result = build(folder, "-k", "a.lua", "tiny.lua", "b.lua")
        same(result.status, 1)
        check(os.path.exists(f"{folder}/out/tiny.kpk"), result)


@test("without -k a failure stops the build; with -k whole targets are still written")
def _():
    with Folder() as folder:
        tiny(folder, module("bad"), module("slow"))
        source(folder, "bad", "fake log kernels/bad.cu(1): error: no", "fake result 6")
        source(folder, "slow", GOOD)
        write(f"{folder}/good.lua", target([module("m")], name="good"))
        source(folder, "m", GOOD)
        result = build(folder, "tiny.lua", "good.lua", "-j1")
        same(result.status, 1)
        same(os.listdir(f"{folder}/out"), [])
        golden("build-keep-going.txt", build(folder, "tiny.lua", "good.lua", "-k", "-j1", "--no-cache"), VARIES)
        same(sorted(os.listdir(f"{folder}/out")), ["good.kpk", "good.kpk.json"])
        # A failed check, too, costs only its own target; an older image stays.
        old = write(f"{folder}/out/tiny.kpk", "old")
        tiny(folder, module("bad", '"plan"'))
        same(build(folder, "tiny.lua", "good.lua").status, 1)
        result = build(folder, "tiny.lua", "good.lua", "-k")
        same((result.status, read(old)), (1, b"old"))
        check("good.kpk: 1 unit" in result.out and "tiny.kpk" not in result.out, result)


@test("a unit that takes longer than its limit of seconds")
def _():
    with Folder() as folder:
        tiny(folder, module("m", 'k.entry "plain" { limits = { seconds = 1 } }'), commands=("fake sleep 1100", GOOD))
        result = build(folder)
        same(result.status, 1, result)
        check(re.search(r"tiny.lua:4:\d+: entry 'plain' took 1\.\d s to compile, more than its limit of 1 s",
                        result.err), result)


@test("entries named by expressions: their symbols, and what is wrong with them")
def _():
    name = 'k.entry "third" { expression = "templated<3>" }'
    with Folder() as folder:
        tiny(folder, module("m", f'{name}, "plain", k.entry "again" {{ expression = "(&templated<3>)" }}'))
        source(folder, "m", "fake lower _Z9templatedILi3EEvPf templated<3>",
               "fake lower _Z9templatedILi3EEvPf (&templated<3>)", GOOD)
        for _ in range(2):  # compiled, then from the cache
            result = build(folder)
            same(result.status, 0, result)
            same({e["name"]: e["symbol"] for e in listing(folder)["modules"][0]["entries"]},
                 {"again": "_Z9templatedILi3EEvPf", "plain": "plain", "third": "_Z9templatedILi3EEvPf"})
            same(kpack("verify", "out/tiny.kpk", cwd=folder).status, 0)
        for said, commands in (
                ("NVRTC does not say the symbol of 'templated<3>'", [GOOD]),
                ("NVRTC does not take the name 'templated<3>'", ["fake refuse-names", GOOD]),
                ("'templated<3>' of entry 'third' names no kernel of 'kernels/m.cu'",
                 ["fake lower variable templated<3>", GOOD])):
            tiny(folder, module("m", name))
            source(folder, "m", *commands)
            result = build(folder)
            same(result.status, 1, result)
            check(said in result.err and "tiny.lua:4:" in result.err, said, result)


WARNING = "fake log kernels/m.cu(1): warning #1-D: odd"


@test("warnings = 'error' fails a module that has some, compiled or from the cache")
def _():
    def status(more, module_more):
        tiny(folder, module("m", more=module_more), commands=(WARNING, WARNING.replace("odd", "odder"), GOOD), more=more)
        result = build(folder)
        same(result.err.count("odd"), 3 - 1, result)
        return result
    strict, lenient = 'warnings = "error",', 'warnings = "show",'
    with Folder() as folder:
        for more, module_more, wanted in ((strict, "", 1), ("", strict, 1), (strict, lenient, 0), ("", "", 0),
                                          (lenient, strict, 1)):
            result = status(more, module_more)
            same(result.status, wanted, result)
            check(wanted == 0 or "tiny.lua:4:3: module 'm' compiles with 2 warnings, which its description makes"
                  " errors" in result.err, result)


@test("with -k every fault is told: failed units in the description's order, checks of the others")
def _():
    with Folder() as folder:
        modules = [module(f"m{i}") for i in range(6)] + [
            module("n", 'k.entry "plain" { limits = { registers = 1 } }, "plan"'),
            module("o", 'k.entry "plain" { twin_of = "m1:plain", bits = "same" }')]
        tiny(folder, *modules)
        for i in range(6):  # the first ends last
            source(folder, f"m{i}", f"fake sleep {300 - 50 * i}", f"fake log kernels/m{i}.cu(1): error: no {i}",
                   "fake result 6")
        result = build(folder, "tiny.lua", "-k", "-j8")
        same(result.status, 1, result)
        same(re.findall(r": no (\d)", result.err), list("012345"), result)
        check("uses 8 registers, more than its limit of 1" in result.err and "no entry 'plan'" in result.err, result)
        check("twin" not in result.err, result)


@test("--timings writes a trace of what ran where")
def _():
    with Folder() as folder:
        tiny(folder, *[module(f"m{i}") for i in range(4)], module("bad"), commands=("fake sleep 30", GOOD))
        source(folder, "bad", "fake result 6")
        result = build(folder, "tiny.lua", "-k", "-j2", "--timings", "trace.json")
        same(result.status, 1, result)
        events = json.loads(read(f"{folder}/trace.json"))["traceEvents"]
        lanes = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        units = [e for e in events if e["ph"] == "X"]
        same((lanes, sorted(u["name"] for u in units)), ({0, 1}, ["tiny/bad", *(f"tiny/m{i}" for i in range(4))]))
        same({u["name"]: u["cat"] for u in units}["tiny/bad"], "failed")
        for lane in lanes:
            own = sorted((u["ts"], u["ts"] + u["dur"]) for u in units if u["tid"] == lane)
            check(own and all(a[1] <= b[0] for a, b in zip(own, own[1:])), own)
        check(all(u["dur"] >= 30000 for u in units if u["cat"] == "compiled"), units)
        result = build(folder, "tiny.lua", "--no-cache", "--timings", "missing/trace.json")
        same(result.status, 1, result)
        check("missing/trace.json" in result.err, result)


@test("the sidecar says what the image was made from")
def _():
    with Folder() as folder:
        tiny(folder)
        write(f"{folder}/kernels/m.h", "#define M 1\n")
        source(folder, "m", "fake open kernels/m.h", GOOD)
        git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.com"]

        def sidecar():
            same(build(folder).status, 0)
            return json.loads(read(f"{folder}/out/tiny.kpk.json"))

        data = sidecar()
        same(list(data), ["kpack", "nvrtc", "target", "arch", "commit", "dirty", "sources",
                          "image_bytes", "image_digest", "units"])
        same((data["commit"], data["dirty"]), (None, None))
        same(sorted(data["sources"]), ["kernels/m.cu", "kernels/m.h"])
        digest = subprocess.run(["b2sum", "-l", "256", f"{folder}/kernels/m.h", f"{folder}/out/tiny.kpk"],
                                stdout=subprocess.PIPE, check=True).stdout.decode().split()
        same((data["sources"]["kernels/m.h"], data["image_digest"]), (digest[0], digest[2]))
        same(data["image_bytes"], os.path.getsize(f"{folder}/out/tiny.kpk"))
        same([list(u) for u in data["units"]], [["module", "seconds", "peak_bytes"]])
        write(f"{folder}/.gitignore", "out\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], stdout=subprocess.PIPE, check=True)
        data = sidecar()
        same((data["commit"], data["dirty"]), (head.stdout.decode().strip(), False))
        write(f"{folder}/notes", "not used by the build")
        same(sidecar()["dirty"], False)
        subprocess.run([*git, "rm", "-q", "--cached", "kernels/m.h"], check=True)
        subprocess.run([*git, "commit", "-qm", "y"], check=True)
        same(sidecar()["dirty"], True)
        subprocess.run([*git, "add", "kernels/m.h"], check=True)
        subprocess.run([*git, "commit", "-qm", "z"], check=True)
        same(sidecar()["dirty"], False)
        write(f"{folder}/kernels/m.h", "#define M 2\n")
        same(sidecar()["dirty"], True)
        subprocess.run([*git, "rm", "-q", "--cached", "tiny.lua"], check=True)
        subprocess.run([*git, "commit", "-qam", "w"], check=True)
        same(sidecar()["dirty"], True)


@test("the units that took longest the last time start first")
def _():
    with Folder() as folder:
        names = ["m0", "m1", "m2", "m3"]
        tiny(folder, *(module(name) for name in names))
        for name, sleep in zip(names, (40, 160, 10, 90)):
            source(folder, name, f"fake sleep {sleep}", GOOD)
        build(folder, "tiny.lua", "-j1")
        for name in names:  # as large as one another, so that size decides nothing
            source(folder, name, GOOD)
        result = build(folder, "tiny.lua", "-j1")
        same(re.findall(r"tiny/(m\d)", result.err), ["m1", "m3", "m0", "m2"], result)
        for text in ("", "{", "[]", '{"units": 3}', '{"units": [{"module": "m2", "seconds": "x"}, 4]}'):
            write(f"{folder}/out/tiny.kpk.json", text)
            same(build(folder, "tiny.lua", "-j1").status, 0)


@test("--stamp puts it into the image, without times; without it a commit changes no byte")
def _():
    with Folder() as folder:
        tiny(folder)
        build(folder)
        plain = read(f"{folder}/out/tiny.kpk")
        check(b"kernels/m.cu\":" not in plain)
        stamped = set()
        for _ in range(2):
            same(build(folder, "tiny.lua", "--stamp").status, 0)
            stamped.add(read(f"{folder}/out/tiny.kpk"))
        same(len(stamped), 1)
        check(plain not in stamped)
        check(all(b'"commit":null' in x and b'"kernels/m.cu":"' in x for x in stamped))
        result = build(folder, "tiny.lua", "--stamp")
        check("kpack: warning: tiny.lua: the stamp has no commit: fatal: not a git repository" in result.err, result)
        result = build(folder, "tiny.lua", "--stamp", env={"PATH": "/nowhere"})
        check("kpack: warning: tiny.lua: the stamp has no commit: git is not installed" in result.err, result)
        lines = kpack("list", "out/tiny.kpk", cwd=folder).out.splitlines()
        check(lines[1].startswith('stamp: {"kpack":"'), lines)
        git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.com"]
        for words in (["init", "-q"], ["add", "kernels", "tiny.lua"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True)
        for text, end in ((GOOD, ""), ("// changed\n" + GOOD, " and changes to it")):
            source(folder, "m", text)
            same(build(folder, "tiny.lua", "--stamp").status, 0)
            lines = kpack("list", "out/tiny.kpk", cwd=folder).out.splitlines()
            check(re.fullmatch(rf"stamp: commit [0-9a-f]{{40}}{end}, kpack \S+", lines[1]), lines)


@test("an entry that k.every ships and the target declares absent is an error once it is compiled")
def _():
    with Folder() as folder:
        every = 'k.module "m" { source = "kernels/m.cu", entries = k.every }'
        source(folder, "m", GOOD)
        for absent, wrong in (("m:plain", True), ("m:other", False), ("n:plain", False)):
            write(f"{folder}/tiny.lua", target([every], more=f'expected_absent = {{ ["{absent}"] = "for a reason" }},'))
            result = build(folder)
            same(result.status, int(wrong), absent, result)
            same("'m' ships the entry 'plain' by k.every, and the target declares it absent" in result.err, wrong, result)


@test("a project whose path has spaces, quotes, newlines and non-ASCII")
def _():
    for name in ("a b", "it's \"x\"", "ü\u4e2d", "new\nline", "$(x);&*?", "-dash"):
        with Folder(name) as folder:
            tiny(folder)
            result = build(folder, f"{folder}/tiny.lua")
            same((result.status, sorted(os.listdir(f"{folder}/out"))),
                 (0, ["tiny.kpk", "tiny.kpk.json"]), name, result)
            same(left_behind(folder), [])
            result = build(os.path.dirname(folder), "--", f"{name}/tiny.lua") if name[0] != "-" else result
            same(result.status, 0, result)
            check("\n\n" not in result.out and len(result.out.splitlines()) == 2, result)


@test("without nvJitLink, split and lto are compiled whole, with one warning")
def _():
    with Folder() as folder:
        tiny(folder, module("m", more="split = true,"), module("n", more="lto = true,"))
        result = build(folder)
        same((result.status, result.err.count("warning")), (0, 1), result)
        check("warning: tiny.lua:4:3: there is no nvJitLink beside NVRTC: module 'm' and all that ask like it are "
              "compiled whole, without 'split'; install NVIDIA's package nvidia-nvjitlink" in result.err, result)
        tiny(folder, module("n", more="lto = true,"))
        check("module 'n' is compiled whole, without 'lto'" in build(folder, "tiny.lua", "--no-cache").err)


@test("an nvJitLink that cannot be used, or that refuses what it is given")
def _():
    with Folder() as folder:
        cuda = shutil.copytree(FAKE, f"{folder}/cuda")
        library = f"{cuda}/lib64/libnvJitLink.so.13"
        tiny(folder, module("m", more="lto = true,"))
        write(library, "no library")
        result = build(folder, fake=cuda)
        same(result.status, 1, result)
        check("'tiny/m' does not compile for sm_90a: cannot open nvJitLink: " in result.err, result)
        shutil.copy(f"{FAKE}/lib64/libnvrtc.so.13", library)
        result = build(folder, fake=cuda)
        same(result.status, 1, result)
        check("is not a usable nvJitLink: it has no function 'nvJitLinkCreate'" in result.err, result)
        real = glob.glob("/usr/local/cuda/lib64/libnvJitLink.so.1?")
        if real:  # the fake IR is none
            os.remove(library)
            os.symlink(os.path.realpath(real[0]), library)
            result = build(folder, fake=cuda)
            same(result.status, 1, result)
            check("'tiny/m' does not compile for sm_90a: nvJitLink: ERROR" in result.err, result)


@test("no CUDA: what was looked at and what to do")
def _():
    with Folder() as folder:
        tiny(folder)
        os.mkdir(f"{folder}/empty")
        result = build(folder, "tiny.lua", "--cuda", f"{folder}/empty", fake=None)
        same((result.status, result.out), (1, ""))
        check(f"{folder}/empty" in result.err, result)
        check(not os.listdir(f"{folder}/out"))


@test("an unreadable description, source or image place is named")
def _():
    with Folder() as folder:
        tiny(folder)
        os.remove(f"{folder}/kernels/m.cu")
        os.mkdir(f"{folder}/kernels/m.cu")
        result = build(folder)
        same((result.status, result.out), (1, ""))
        check("kernels/m.cu" in result.err, result)


main()
