#!/usr/bin/env python3
"""diff, size and extract: images compared, weighed and taken apart."""
import json
import os

from harness import Folder, check, golden, kpack, main, read, same, test
from images import CUBIN, DAMAGE, ENTRIES, OTHER_CUBIN, damage, describe, forge, module, patched

DIFFERENCE = ["module", "entry", "what", "aspect", "before", "after"]
LEVERS = [{"name": "exact", "env": "EXACT"}, {"name": "fast", "env": "FAST", "on": True}, {"name": "mode", "env": "MODE", "kind": 3, "text": "auto"}]
# What varies with zstd.
SIZES = [(r"(entry|entries), [\d.]+ (B|KiB)", r"\1, N"), (r"\n  file .*", "\n  file N"), (r"  +", "  ")]


def run(folder, *args):
    return kpack(*args, cwd=folder)


def before(folder, name="before", **more):
    entries = [{"name": "plain", "block": [256, 1, 1], "dynamic_smem": 4096, "spill": 0, "registers": 40},
               {"name": "stack", "twin_of": "alpha:plain", "bits": "same"}]
    image = {"target": "some", "levers": LEVERS, "absent": [["gamma", "mul", "no tensor cores"]],
             "modules": [module("alpha", entries=entries, constants={"TILE": 64, "OLD": 1},
                                flags=["-lineinfo", "--fmad=false"]),
                         module("gone", entries=["plain", "static_smem"])]}
    return describe(folder, name, **{**image, **more})


def after(folder):
    entries = [{"name": "plain", "block": [128, 2, 1], "dynamic_smem": 8192, "spill": 24, "registers": 48},
               {"name": "static_smem", "registers": 12}]
    return describe(
        folder, "after", target="some", nvrtc=[12, 9], absent=[["gamma", "mul", "nobody asks"]],
        levers=[{"name": "exact", "env": "PRECISE", "kind": 1}, {"name": "fast", "env": "FAST", "on": False}, {"name": "new", "env": "NEW", "kind": 2}],
        modules=[module("alpha", patched(folder, "patched.cubin", "plain"), entries,
                        constants={"TILE": -2**63, "NEW": 2}, flags=["--fmad=false", "-G"]),
                 module("fresh", entries=["plain"])])


def differences(folder, *args):
    result = run(folder, "diff", "--json", *args)
    return json.loads(result.out)["differences"]


@test("diff of an image with itself is empty, stamps aside")
def _():
    with Folder() as folder:
        golden("diff-none.txt", run(folder, "diff", before(folder), before(folder, "copy")), SIZES)
        stamped = before(folder, "stamped", stamp='{"a": "b"}')
        same({d["what"] for d in differences(folder, "before.kpk", stamped)} - {"file"}, set())


@test("diff prints what was added, removed and changed, with both values")
def _():
    with Folder() as folder:
        before(folder), after(folder)
        result = run(folder, "diff", "before.kpk", "after.kpk")
        golden("diff-all.txt", result, SIZES)
        for line in result.out.splitlines():
            check(len(line) <= 120, len(line), line)


@test("what a target does not declare of its device is not known, rather than 0")
def _():
    with Folder() as folder:
        declared = before(folder, "declared", sm_count=132, smem_optin=232448)
        found = {d["what"]: (d["before"], d["after"]) for d in differences(folder, declared, before(folder))}
        same(found["multiprocessors"], (132, None))
        same(found["shared memory of a block"], (232448, None))


@test("the JSON of diff has the promised fields, and says the same both ways round")
def _():
    with Folder() as folder:
        before(folder), after(folder)
        forth = json.loads(run(folder, "diff", "before.kpk", "after.kpk", "--json").out)
        same(list(forth), ["before", "after", "differences", "failed"])
        same(list(forth["before"]), ["image", "target", "arch", "modules", "entries", "file_bytes"])
        same(forth["after"]["image"], "after.kpk")
        same(forth["failed"], [])
        for item in forth["differences"]:
            same(list(item), DIFFERENCE)
            check(item["before"] != item["after"], item)
        def turned(items):
            return sorted(json.dumps([d["module"], d["entry"], d["what"], d["after"], d["before"]]) for d in items)
        back = differences(folder, "after.kpk", "before.kpk")
        same(turned(back), sorted(json.dumps([d["module"], d["entry"], d["what"], d["before"], d["after"]])
                                  for d in forth["differences"]))


@test("each kind of difference alone is found, and fails under its own word only")
def _():
    one = {"name": "plain", "registers": 40, "spill": 0, "dynamic_smem": 64}
    def image(folder, name, entry=None, entries=(), levers=(), modules=(), **more):
        first = module("m", entries=[entry or one, *entries], **more)
        return describe(folder, name, modules=[first, *modules], levers=list(levers))
    words = {
        "registers": {"entry": {**one, "registers": 41}},
        "spills": {"entry": {**one, "spill": 4}},
        "smem": {"entry": {**one, "dynamic_smem": 65}},
        "stack": {"entry": {**one, "stack": 8}},
        "constants": {"constants": {"A": 1}},
        "flags": {"flags": ["-G"]},
        "levers": {"levers": LEVERS},
        "added": {"entries": ["stack"]},
    }
    every = ["removed", "added", "spills", "registers", "smem", "stack", "code", "constants", "flags", "levers"]
    with Folder() as folder:
        image(folder, "a")
        words["code"] = {"cubin": patched(folder, "p.cubin", "plain")}
        for word, more in words.items():
            image(folder, "b", **more)
            same(run(folder, "diff", "a.kpk", "b.kpk").status, 0, word)
            result = run(folder, "diff", "--json", "--fail-on", word, "a.kpk", "b.kpk")
            same((result.status, json.loads(result.out)["failed"]), (1, [word]))
            check(f"kpack: error: b.kpk: '--fail-on {word}': " in result.err, result.err)
            others = ",".join(w for w in every if w != word)
            same(run(folder, "diff", "--fail-on", others, "a.kpk", "b.kpk").status, 0, word)
        same(run(folder, "diff", "--fail-on", "removed", "b.kpk", "a.kpk").status, 0)
        image(folder, "b", modules=[module("x", entries=["plain"])])
        same(run(folder, "diff", "--fail-on=removed", "b.kpk", "a.kpk").status, 1)
        same(run(folder, "diff", "--fail-on=added", "a.kpk", "b.kpk").status, 1)


@test("a figure that shrinks fails nothing; one that becomes known counts from 0")
def _():
    with Folder() as folder:
        for name, registers, spill in (("a", 40, {"spill": 8}), ("b", 39, {"spill": 4}), ("c", 39, {})):
            describe(folder, name, modules=[module("m", entries=[{"name": "plain", "registers": registers, **spill}])])
        fail_on = ("--fail-on", "registers,spills,smem,stack")
        same(run(folder, "diff", *fail_on, "a.kpk", "b.kpk").status, 0)
        same(run(folder, "diff", *fail_on, "b.kpk", "c.kpk").status, 0)
        same(run(folder, "diff", *fail_on, "c.kpk", "b.kpk").status, 1)


@test("size=5% allows 5 percent, and not more")
def _():
    with Folder() as folder:
        describe(folder, "a", modules=[module("m", entries=["plain"])])
        describe(folder, "b", modules=[module("m", entries=["plain"], flags=["-D" + "x" * 100])])
        small, large = (os.path.getsize(f"{folder}/{n}.kpk") for n in "ab")
        share = 100 * (large - small) / small
        for word, status in ((f"size={share + .1:.1f}%", 0), (f"size={share - .1:.1f}%", 1), ("size", 1), ("size=0%", 1)):
            same(run(folder, "diff", "--fail-on", word, "a.kpk", "b.kpk").status, status, word)
            same(run(folder, "diff", "--fail-on", word, "b.kpk", "a.kpk").status, 0, word)


@test("an entry whose symbol has another name is found by it")
def _():
    with Folder() as folder:
        for name, symbol in (("a", "_Z9templatedILi3EEvPf"), ("b", "plain")):
            describe(folder, name, modules=[module("m", entries=[{"name": "templated<3>", "symbol": symbol}])])
        found = {d["what"]: (d["before"], d["after"]) for d in differences(folder, "a.kpk", "b.kpk")}
        same((found["symbol"], found["code"]), (("_Z9templatedILi3EEvPf", "plain"), (256, 384)))


@test("a module that is split now has more cubins, with the same code")
def _():
    with Folder() as folder:
        describe(folder, "whole", modules=[module("m", entries=ENTRIES)])
        entries = [{"name": n, "object": i} for i, n in enumerate(ENTRIES)]
        describe(folder, "split", modules=[{"name": "m", "cubins": [CUBIN] * 3, "entries": entries}])
        found = {d["what"]: (d["entry"], d["before"], d["after"]) for d in differences(folder, "whole.kpk", "split.kpk")}
        same((sorted(set(found) - {"file"}), found["number of cubins"]), (["cubins", "number of cubins"], (None, 1, 3)))


@test("flags in another order are a difference")
def _():
    with Folder() as folder:
        for name, flags in (("a", ["-G", "-w"]), ("b", ["-w", "-G"])):
            describe(folder, name, modules=[module("m", flags=flags)])
        same([(d["what"], d["before"], d["after"]) for d in differences(folder, "a.kpk", "b.kpk")],
             [("list of flags", "-G -w", "-w -G")])


@test("mistakes in --fail-on name the nearest word")
def _():
    with Folder() as folder:
        for name, word in (("near", "removed,registerz"), ("far", "quux"), ("empty", "removed,,size"),
                           ("value", "spills=3"), ("size", "size=5"), ("negative", "size=-5%"), ("word", "size=x%")):
            golden(f"diff-fail-on-{name}.txt", run(folder, "diff", "--fail-on", word, "a.kpk", "b.kpk"))
        for share in ("0x5%", "1e1%", ".%", "5..%", "5%%", "%", "+5%", " 5%", "9" * 400 + "%", "nan%", "5 %"):
            result = run(folder, "diff", "--fail-on", f"size={share}", "a.kpk", "b.kpk")
            check(result.status == 2 and f"has 'size={share}', expected a share such as 'size=5%'" in result.err, result)


@test("a damaged or foreign file is an error of diff, size and extract, on either side")
def _():
    with Folder() as folder:
        damage(folder, before(folder, "good"))
        for name in DAMAGE:
            bad = f"{name}.kpk"
            expected = run(folder, "list", bad).err
            check(expected.startswith("kpack: error: "), name)
            for words in (("diff", bad, "good.kpk"), ("diff", "good.kpk", bad), ("size", bad), ("extract", bad, "m")):
                result = run(folder, *words)
                same((result.status, result.out, result.err), (1, "", expected), words)


@test("an image whose bytes past the index are damaged is an error of diff and extract")
def _():
    with Folder() as folder:
        bad = bytearray(read(f"{folder}/{before(folder, 'good')}"))
        bad[-5] ^= 0x40
        with open(f"{folder}/bad.kpk", "wb") as file:
            file.write(bad)
        for words in (("diff", "good.kpk", "bad.kpk"), ("extract", "bad.kpk", "alpha")):
            result = run(folder, *words)
            same((result.status, result.out), (1, ""), words)
            check("bad.kpk" in result.err and "group" in result.err, result.err)
        check(not os.path.exists(f"{folder}/alpha.cubin"))


@test("an image whose cubins are none is an error of diff")
def _():
    with Folder() as folder:
        noise = os.path.join(folder, "noise")
        with open(noise, "wb") as file:
            file.write(b"no cubin at all " * 10)
        describe(folder, "noise", modules=[module("m", noise, ["e"])])
        describe(folder, "wrong", modules=[module("m", entries=["elsewhere"])])
        golden("diff-noise.txt", run(folder, "diff", "noise.kpk", "wrong.kpk"))


@test("names that would drive a terminal are escaped by diff and size")
def _():
    with Folder() as folder:
        name = "\x1b[31mred\nline"
        describe(folder, "a", target=name, modules=[module(name, CUBIN, ["plain"], constants={"\x07": 1}, flags=["\x1b[2J"])])
        describe(folder, "b", target="\x9b31m", modules=[module("m", CUBIN, ["plain"])])
        for words in (("diff", "a.kpk", "b.kpk"), ("diff", "--fail-on=removed,added", "a.kpk", "b.kpk"), ("size", "a.kpk")):
            result = run(folder, *words)
            for line in (result.out + result.err).splitlines():
                check(line.isprintable() and len(line) <= 200, repr(line))
            check("\\x1B[31mred\\x0Aline" in result.out, result.out)
        result = run(folder, "extract", "a.kpk", name)
        same((result.status, os.listdir(folder).count("m.cubin")), (1, 0))
        check("is no safe file name" in result.err and "\x1b" not in result.err, result.err)


@test("an index that makes up more code than a cubin has is refused by every command, in JSON too")
def _():
    with Folder() as folder:
        for code, status in ((11776, 0), (11777, 1), (2**63, 1), (2**64 - 1, 1)):
            path = describe(folder, "a", modules=[module("m", entries=["plain"])])
            same(len(read(CUBIN)), 11776)
            forge(folder, path, 2, 0, 64, code.to_bytes(8, "little"))
            for words in (("list", path), ("show", path, "m"), ("size", path), ("diff", path, path), ("coverage", path)):
                for more in ((), ("--json",)):
                    result = run(folder, *words, *more)
                    same((result.status, result.out == ""), (status, status == 1), words, result)
                    check(status == 0 or "entry record 0: its code is larger than its cubin" in result.err, result)


# ---- size -------------------------------------------------------------------------------------------

def split(folder, name="split"):
    """A module with a cubin for each entry."""
    entries = [{"name": n, "object": i} for i, n in enumerate(ENTRIES)]
    cubins = [CUBIN, OTHER_CUBIN, CUBIN]
    return describe(folder, name, modules=[{"name": "m", "cubins": cubins, "entries": entries},
                                           module("whole", entries=ENTRIES)])


@test("the bytes of size add up, to the byte")
def _():
    with Folder() as folder:
        for path in (before(folder), split(folder)):
            size = json.loads(run(folder, "size", "--json", path).out)
            same(list(size), ["raw_bytes", "file_bytes", "index_bytes", "modules"])
            same(size["file_bytes"], os.path.getsize(f"{folder}/{path}"))
            same(sum(m["packed_bytes"] for m in size["modules"]) + size["index_bytes"], size["file_bytes"])
            same(sum(m["raw_bytes"] for m in size["modules"]), size["raw_bytes"])
            for item in size["modules"]:
                same(list(item), ["name", "raw_bytes", "packed_bytes", "entries", "rest"])
                parts = item["entries"] + ([item["rest"]] if item["rest"] else [])
                for key in ("raw_bytes", "packed_bytes"):
                    same(sum(p[key] for p in parts), item[key], item["name"])
            groups = json.loads(run(folder, "list", "--json", path).out)["groups"]
            same(sum(g["packed_bytes"] for g in groups) + size["index_bytes"], size["file_bytes"])


@test("size prints modules and entries, the largest first, with a bar")
def _():
    with Folder() as folder:
        result = run(folder, "size", split(folder))
        golden("size-split.txt", result, [(r"\d+\.\d%", "P%"), (r"[\d.]+ (B|KiB)", "N"), (r" +", " "), (r"#+", "#")])
        check("####################" in result.out, result.out)
        for line in result.out.splitlines():
            check(len(line) <= 120, line)
        shares = [m["packed_bytes"] for m in json.loads(run(folder, "size", "--json", "split.kpk").out)["modules"]]
        same(shares, sorted(shares, reverse=True))


@test("entries with more code together than their cubin has take all of it, and no more")
def _():
    with Folder() as folder:
        path = describe(folder, "a", modules=[module("m", entries=[{"name": "plain", "code": len(read(CUBIN))}, "stack"])])
        item, = json.loads(run(folder, "size", "--json", path).out)["modules"]
        same([e["raw_bytes"] for e in item["entries"]], [item["raw_bytes"], 0])
        same(item["rest"], None)


# ---- extract ----------------------------------------------------------------------------------------

@test("extract writes the very cubin, under the module's name or another")
def _():
    with Folder() as folder:
        before(folder)
        golden("extract.txt", run(folder, "extract", "before.kpk", "alpha"))
        same(read(f"{folder}/alpha.cubin"), read(CUBIN))
        for words, path in ((("alpha:plain",), "alpha.cubin"), (("alpha", "-o", "x.bin"), "x.bin")):
            if os.path.exists(f"{folder}/{path}"):
                os.remove(f"{folder}/{path}")
            same(run(folder, "extract", "before.kpk", *words).status, 0)
            same(read(f"{folder}/{path}"), read(CUBIN))
        same(sorted(n for n in os.listdir(folder) if not n.startswith("before")), ["alpha.cubin", "x.bin"])


@test("a split module has a cubin for each entry")
def _():
    with Folder() as folder:
        split(folder)
        golden("extract-split.txt", run(folder, "extract", "split.kpk", "m"))
        for entry, cubin in (("plain", CUBIN), ("stack", OTHER_CUBIN)):
            same(run(folder, "extract", "split.kpk", f"m:{entry}").status, 0)
            same(read(f"{folder}/m.{entry}.cubin"), read(cubin))


@test("extract says what is not there, and where it cannot write")
def _():
    with Folder() as folder:
        describe(folder, "before", modules=[module("alpha", entries=["plain"]), module("../up"), module("-o")])
        golden("extract-no-module.txt", run(folder, "extract", "before.kpk", "alhpa"))
        golden("extract-no-entry.txt", run(folder, "extract", "before.kpk", "alpha:plainx"))
        golden("extract-no-folder.txt", run(folder, "extract", "before.kpk", "alpha", "-o", "no/such/file"))
        for name in ("../up", "-o"):
            result = run(folder, "extract", "before.kpk", "--", name)
            same((result.status, result.out), (1, ""))
            check("is no safe file name: name the file with '-o'" in result.err, result.err)
        same(run(folder, "extract", "-o", "up", "before.kpk", "../up").status, 0)


main()
