#!/usr/bin/env python3
"""audit: an engine's lookups against what an image ships."""
import json

from harness import Folder, check, golden, kpack, main, same, test, write
from images import DAMAGE, damage, describe, module

LOOKUP = ["module", "entry", "answer", "reason", "count", "place"]
LOOKUPS = """# what the engine asks for
alpha:plain  # src/gemm.c:12
alpha:plainx# no comment, a name
gone:mul
   alpha:stack\t
beta:plain # src/other.c:7

alpha:plain  # src/again.c:1
"""


def run(folder, *args):
    return kpack(*args, cwd=folder)


def sample(folder):
    return describe(folder, "image", absent=[["gone", "mul", "needs tensor memory"], ["gone", "add", ""]],
                    modules=[module("alpha", entries=["plain", "stack", "static_smem"]), module("beta")])


def audit(folder, lookups, *args):
    write(f"{folder}/list", lookups)
    result = run(folder, "audit", "image.kpk", "--lookups", "list", "--json", *args)
    return result, json.loads(result.out) if result.out else None


@test("each lookup is answered, declared absent with its reason, or undeclared")
def _():
    with Folder() as folder:
        sample(folder)
        write(f"{folder}/list", LOOKUPS.replace("plainx#", "plainx #"))
        result = run(folder, "audit", "image.kpk", "--lookups", "list")
        golden("audit.txt", result)
        for line in result.out.splitlines():
            check(len(line) <= 120, line)


@test("the JSON of audit says the same, its fields in order")
def _():
    with Folder() as folder:
        sample(folder)
        result, found = audit(folder, LOOKUPS)
        same((result.status, list(found)), (1, ["target", "arch", "lookups", "unused", "failed"]))
        for item in found["lookups"]:
            same(list(item), LOOKUP)
        same([(i["module"], i["entry"], i["answer"], i["place"]) for i in found["lookups"]], [
            ("alpha", "plain", "answered", "src/gemm.c:12"),
            ("alpha", "plainx# no comment, a name", "undeclared", None),
            ("alpha", "stack", "answered", None),
            ("beta", "plain", "undeclared", "src/other.c:7"),
            ("gone", "mul", "absent", None)])
        same(found["lookups"][4]["reason"], "needs tensor memory")
        same((found["unused"], found["failed"]), ([{"module": "alpha", "entry": "static_smem"}], ["undeclared"]))


@test("by default an undeclared lookup fails; --fail-on says what does")
def _():
    every = "alpha:plain\nalpha:stack\nalpha:static_smem\ngone:add\n"
    with Folder() as folder:
        sample(folder)
        for lookups, default, undeclared, unused, both in (
                (every, 0, 0, 0, 0), ("alpha:plain", 0, 0, 1, 1), (every + "x:y", 1, 1, 0, 1), ("x:y", 1, 1, 1, 1)):
            write(f"{folder}/list", lookups)
            for status, args in ((default, ()), (undeclared, ("--fail-on=undeclared",)), (unused, ("--fail-on=unused",)),
                                 (both, ("--fail-on", "undeclared,unused"))):
                for more in ((), ("--json",)):
                    result = run(folder, "audit", "image.kpk", "--lookups=list", *args, *more)
                    same((result.status, bool(result.err)), (status, bool(status)), lookups, args)
        golden("audit-both.txt", result)


@test("misses as the runtime counts them, and what kpack lookups prints, are lists too")
def _():
    with Folder() as folder:
        sample(folder)
        misses = [{"module": "alpha", "entry": "mul", "count": 3}, {"module": "gone", "entry": "mul", "count": 1},
                  {"module": "alpha", "entry": "mul", "count": 2**62}, {"module": "alpha", "entry": "mul", "count": 2**62}]
        _, found = audit(folder, json.dumps(misses))
        same([(i["module"], i["entry"], i["answer"], i["count"]) for i in found["lookups"]],
             [("alpha", "mul", "undeclared", 2**63 - 1), ("gone", "mul", "absent", 1)])
        write(f"{folder}/src/a.c", 'kpk_resolve(i, "alpha", "plain");\nkpk_resolve(i, m, "plain");\nkpk_resolve(i, "x", "y");')
        text, as_json = (run(folder, "lookups", "src", *more).out for more in ((), ("--json",)))
        result, found = audit(folder, text)
        again, same_found = audit(folder, as_json)
        same(found, same_found)
        same([(i["module"], i["answer"], i["place"]) for i in found["lookups"]],
             [("alpha", "answered", "src/a.c:1"), ("x", "undeclared", "src/a.c:3")])
        same((result.status, again.status), (1, 1))
        check("list:2: 'x:y' is neither shipped nor declared absent: no module 'x' in this image" in result.err, result.err)
        same(audit(folder, "\ufeffalpha:plain\r\n")[0].status, 0)
        same(audit(folder, "")[1]["lookups"], [])
        same(audit(folder, " \n[]")[1]["lookups"], [])


@test("bad lines are errors at their place, each of them")
def _():
    with Folder() as folder:
        sample(folder)
        write(f"{folder}/list", b"alpha:plain\nno colon # here\n  :entry\nmodule:  # x\n\n : \nm\xff:e\nm:\x1b[31me\nm : e\n")
        golden("audit-bad-lines.txt", run(folder, "audit", "image.kpk", "--lookups", "list"))


@test("bad JSON, and JSON that is no list of lookups, is an error")
def _():
    with Folder() as folder:
        sample(folder)
        write(f"{folder}/list", "[\n {\"module\": \"m\",\n]")
        result = run(folder, "audit", "image.kpk", "--lookups", "list")
        same((result.status, result.out), (1, ""))
        check(result.err.startswith("kpack: error: list:3: bad JSON: "), result.err)
        good = {"module": "m", "entry": "e"}
        bad = [1, {}, {"module": "m"}, {**good, "module": ""}, {**good, "entry": 3}, {**good, "entry": "a\0b"},
               {**good, "count": -1}, {**good, "count": "1"}, {**good, "line": 1.5}, {**good, "file": 1},
               {**good, "countt": 1}, {**good, "frobnicate": 1}, good]
        write(f"{folder}/list", json.dumps(bad))
        golden("audit-bad-json.txt", run(folder, "audit", "image.kpk", "--lookups", "list"))
        for text in ("{}", '{"lookups": {}}', '{"lookup": []}'):
            write(f"{folder}/list", text)
            golden("audit-no-list.txt", run(folder, "audit", "image.kpk", "--lookups", "list"))


@test("a list without a lookup is a warning: such a check can only pass")
def _():
    with Folder() as folder:
        sample(folder)
        for text in ("", "# not literal: a.c:1: kpk_resolve(image, m, e)\n", "[]"):
            result, found = audit(folder, text)
            same((result.status, found["lookups"]), (0, []), result)
            check("warning: list: no lookup in this list" in result.err and "--call" in result.err, result)


@test("lists that cannot be read or are no text")
def _():
    with Folder() as folder:
        sample(folder)
        golden("audit-list-missing.txt", run(folder, "audit", "image.kpk", "--lookups", "no-such"))
        golden("audit-list-folder.txt", run(folder, "audit", "image.kpk", "--lookups", "."))
        golden("audit-list-image.txt", run(folder, "audit", "image.kpk", "--lookups", "image.kpk"))


@test("a damaged or foreign image is an error of audit")
def _():
    with Folder() as folder:
        damage(folder, sample(folder))
        write(f"{folder}/list", "alpha:plain")
        for name in DAMAGE:
            result = run(folder, "audit", f"{name}.kpk", "--lookups", "list")
            same((result.status, result.out, result.err), (1, "", run(folder, "list", f"{name}.kpk").err), name)


@test("wrong usage of audit")
def _():
    with Folder() as folder:
        sample(folder)
        golden("audit-no-lookups.txt", run(folder, "audit", "image.kpk"))
        for name, word in (("near", "undeclaredd"), ("far", "everything"), ("value", "unused=3")):
            golden(f"audit-fail-on-{name}.txt", run(folder, "audit", "image.kpk", "--lookups", "list", "--fail-on", word))


@test("names that would drive a terminal are escaped")
def _():
    with Folder() as folder:
        name = "\x1b[31mred"
        describe(folder, "image", target=name, absent=[[name, name, name]], modules=[module(name, entries=["plain"])])
        write(f"{folder}/list", json.dumps([{"module": name, "entry": e, "file": name} for e in ("plain", name, "\x07")]))
        result = run(folder, "audit", "image.kpk", "--lookups", "list", "--fail-on", "unused,undeclared")
        same(result.status, 1)
        for line in (result.out + result.err).splitlines():
            check(line.isprintable() and len(line) <= 240, repr(line))


main()
