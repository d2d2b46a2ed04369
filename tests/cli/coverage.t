#!/usr/bin/env python3
"""coverage: which images ship which twins, and twins that have no point."""
import json

from harness import Folder, check, golden, kpack, main, same, test
from images import CUBIN, OTHER_CUBIN, damaged_is_refused, describe, module, patched


def run(folder, *args):
    return kpack("coverage", *args, cwd=folder)


def twin(name, of, bits="close"):
    return {"name": name, "twin_of": of, "bits": bits}


def images(folder):
    """One image with two twins of base:plain, one with one of them, one without base."""
    fast = patched(folder, "fast.cubin", "plain")
    faster = patched(folder, "faster.cubin", "plain", 24)
    base = module("base", entries=["plain", "stack"], constants={"ROWS": 64, "COLS": 8})
    describe(folder, "one", target="one", modules=[
        base, module("fast", fast, [twin("plain", "base:plain", "same")], constants={"STAGES": 3}),
        module("faster", faster, [twin("plain", "base:plain"), twin("static_smem", "base:gone")])])
    describe(folder, "two", target="two", arch="sm_121a", modules=[
        {**base, "constants": {"ROWS": 128, "COLS": 8, "MORE": -1}},
        module("fast", fast, [twin("plain", "base:plain", "same")], constants={"STAGES": 3})])
    describe(folder, "three", target="three", modules=[module("other", entries=["plain"], constants={"ROWS": 1})])
    return "one.kpk", "two.kpk", "three.kpk"


@test("parents by images: twins shipped, parents without one, constants that differ")
def _():
    with Folder() as folder:
        result = run(folder, *images(folder))
        golden("coverage.txt", result)
        for line in result.out.splitlines():
            check(len(line) <= 120, line)
        golden("coverage-one.txt", run(folder, "one.kpk"))


@test("the JSON of coverage says the same, its fields in order")
def _():
    with Folder() as folder:
        found = json.loads(run(folder, "--json", *images(folder)).out)
        same(list(found), ["images", "parents", "constants"])
        same([list(i) for i in found["images"]], [["image", "target", "arch"]] * 3)
        parents = {p["parent"]: p for p in found["parents"]}
        same(list(parents), ["base:gone", "base:plain", "base:stack", "other:plain"])
        for parent in found["parents"]:
            same(list(parent), ["parent", "shipped", "twins"])
        same([parents[p]["shipped"] for p in parents],
             [[False, False, False], [True, True, False], [True, True, False], [False, False, True]])
        close, equal = {"bits": "close", "equal_code": False}, {"bits": "same", "equal_code": False}
        same(parents["base:plain"]["twins"], [{"twin": "fast:plain", "images": [equal, equal, None]},
                                              {"twin": "faster:plain", "images": [close, None, None]}])
        same(parents["base:gone"]["twins"], [{"twin": "faster:static_smem", "images": [close, None, None]}])
        same(found["constants"], [{"module": "base", "constant": "MORE", "values": [None, -1, None]},
                                  {"module": "base", "constant": "ROWS", "values": [64, 128, None]}])


@test("a twin with its parent's machine code is pointless: exit status 1")
def _():
    with Folder() as folder:
        for name, cubin in (("good", patched(folder, "p.cubin", "plain")), ("bad", CUBIN), ("worse", OTHER_CUBIN)):
            describe(folder, name, modules=[module("base", entries=["plain", "stack"]),
                                            module("fast", cubin, [twin("plain", "base:plain"), twin("stack", "base:plain")])])
        golden("coverage-good.txt", run(folder, "good.kpk"))
        golden("coverage-bad.txt", run(folder, "good.kpk", "bad.kpk"))
        result = run(folder, "--json", "bad.kpk")
        same(result.status, 1)
        twins = json.loads(result.out)["parents"][0]["twins"]
        same([t["images"][0]["equal_code"] for t in twins], [True, False])


@test("a twin of different parents in two images stands under each")
def _():
    with Folder() as folder:
        fast = patched(folder, "fast.cubin", "plain")
        for name, of in (("a", "base:plain"), ("b", "base:stack")):
            describe(folder, name, modules=[module("base", entries=["plain", "stack"]),
                                            module("fast", fast, [twin("plain", of)])])
        parents = json.loads(run(folder, "--json", "a.kpk", "b.kpk").out)["parents"]
        same([(p["parent"], [[bool(i) for i in t["images"]] for t in p["twins"]]) for p in parents],
             [("base:plain", [[True, False]]), ("base:stack", [[False, True]])])


@test("a damaged or foreign image is an error of coverage, wherever it stands")
def _():
    with Folder() as folder:
        damaged_is_refused(folder, images(folder)[0], run, "coverage-noise.txt")


@test("twins of one another and of themselves: every command that follows twins ends")
def _():
    with Folder() as folder:
        path = describe(folder, "a", modules=[module("m", entries=[
            twin("plain", "m:stack", "same"), twin("stack", "m:plain"), twin("static_smem", "m:static_smem", "same")])])
        for words in (["list", path], ["show", path, "m:plain"], ["verify", path], ["size", path], ["diff", path, path],
                      ["report", path, "-o", "r.html"]):
            same(kpack(*words, cwd=folder).status, 0, *words)
        result = run(folder, path)
        same(result.status, 1, result)
        check("twin 'm:static_smem' has the machine code of its parent 'm:static_smem'" in result.err, result)


@test("twelve images fit a table, and thirteen are refused")
def _():
    with Folder() as folder:
        path = describe(folder, "a", modules=[module("m", patched(folder, "p.cubin", "plain"), ["plain"])])
        result = run(folder, *[path] * 12)
        same(result.status, 0)
        check(all(len(line) <= 120 for line in result.out.splitlines()), result.out)
        golden("coverage-many.txt", run(folder, *[path] * 13))


@test("names that would drive a terminal are escaped, and long ones keep their figures")
def _():
    with Folder() as folder:
        name = "\x1b[31mred\n" + "x" * 200
        describe(folder, "a", target="\x07", modules=[
            module(name, entries=["plain"], constants={"\x1b[2J": 1}),
            module("b", entries=[twin("plain", f"{name}:plain")])])
        describe(folder, "b", modules=[module(name, entries=["plain"], constants={"\x1b[2J": 2})])
        result = run(folder, "a.kpk", "b.kpk")
        same(result.status, 1)
        for line in result.out.splitlines():
            check(line.isprintable() and len(line) <= 120, repr(line))
        check("\x1b" not in result.err, result.err)


main()
