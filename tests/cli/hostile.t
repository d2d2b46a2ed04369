#!/usr/bin/env python3
"""Names that break lines or drive terminals, in images, lists of lookups, sources, paths and on the command line: no command lets one through."""
import json
import os
import shutil
import unicodedata

from harness import Folder, check, kpack, main, same, test, write
from images import describe, module, patched

FORGED = "FORGED"


def bad(word):
    """A name that would begin a line of its own, and colour it."""
    return f"{word}\n{FORGED} \x1b[31m\u009b\x7f\t\r"


def images(folder):
    """Two images of one family with such a name wherever one can be, their bundle, and a copy under such a path."""
    for name, arch, at in (("a", "sm_90a", 8), ("b", "sm_121a", 24)):
        entries = [{"name": bad("e"), "symbol": "plain", "twin_of": f"{bad('m')}:{bad('p')}", "bits": "same"},
                   {"name": bad("p"), "symbol": "stack", "code": 7}]
        describe(folder, name, target=bad(name), arch=bad(arch), stamp=bad("stamp"), absent=[[bad("am"), bad("ae"), bad(f"why {name}")]],
                 levers=[{"name": bad("l"), "env": bad("E"), "kind": 3, "text": bad(f"text {name}")}],
                 modules=[module(bad("m"), patched(folder, "p.cubin", "plain", at), entries, source=bad("src"), origin=bad("o"),
                                 flags=[bad(f"flag {name}")], constants={bad("C"): at})])
    shutil.copy(f"{folder}/a.kpk", f"{folder}/{bad('copy')}")
    same(kpack("bundle", "-o", "all.kpk", "a.kpk", "b.kpk", cwd=folder).status, 0)
    return "a.kpk", "all.kpk", bad("copy")


def harmless(folder, *commands):
    """Each ends as commands end, and says its say in lines that nobody else began."""
    said = set()
    for words in commands:
        result = kpack(*words, cwd=folder)
        check(result.status in (0, 1, 2), words, result)
        for text in (result.out, result.err):
            lines = text.split("\n")
            check(not any(line.startswith(FORGED) for line in lines), words, text)
            check(not any(unicodedata.category(c) == "Cc" for line in lines for c in line), words, repr(text))
        said.add(result.status)
    return said


@test("list, show, verify, size, coverage")
def _():
    with Folder() as folder:
        for image in (*images(folder), bad("nowhere")):
            for more in ((), ("--json",), ("--target", bad("a")), ("--target", bad("x"))):
                harmless(folder, *((command, *more, image) for command in ("list", "verify", "size", "coverage")))
            for name in (bad("m"), f"{bad('m')}:{bad('e')}", f"{bad('m')}:{bad('x')}", bad("x"), bad("m")[:-1]):
                harmless(folder, ("show", image, name), ("show", "--json", image, name))


@test("diff, report, bundle, extract, embed")
def _():
    with Folder() as folder:
        all_ = images(folder)
        words = "removed,added,constants,flags,levers,code,registers,stack,size"
        for one in (*all_, bad("nowhere")):
            for two in ("b.kpk", *all_):
                harmless(folder, ("diff", one, two), ("diff", "--json", one, two), ("diff", "--fail-on", words, one, two), ("coverage", one, two),
                         ("report", "-o", bad("page"), one, two), ("bundle", "-o", bad("fat"), one, two))
            for name in (bad("m"), f"{bad('m')}:{bad('e')}", bad("x")):
                harmless(folder, ("extract", one, name, "-o", bad("cubin")), ("extract", one, name), ("extract", "--fatbin", one, name, "-o", bad("f")))
            harmless(folder, ("extract", one, "--target", bad("a")), ("embed", "-o", bad("o.o"), one), ("report", "-o", bad("no") + "/r.html", one))
        # What was written under such a name is there.
        for name in ("page", "fat", "cubin"):
            check(os.path.getsize(f"{folder}/{bad(name)}") > 0, name)


@test("audit and lookups")
def _():
    with Folder() as folder:
        all_ = images(folder)
        write(f"{folder}/{bad('list')}", "m:e\nx\x1by:z\n")
        write(f"{folder}/list.json", json.dumps([{"module": bad("m"), "entry": bad("q")}, {"module": bad("z"), "entry": bad("q")},
                                                 {"module": bad("am"), "entry": bad("ae"), "count": 2}]))
        for image in all_:
            for lookups in (bad("list"), "list.json", bad("nowhere")):
                harmless(folder, *(("audit", image, "--lookups", lookups, *more) for more in ((), ("--json",), ("--fail-on", "unused,undeclared"))))
            harmless(folder, ("verify", image, "--rebuild", bad("x.lua")))
        write(f"{folder}/{bad('engine')}.c", f'kpk_resolve(i, "a\\n{FORGED}", "b"); kpk_resolve(i, x, "{FORGED}\\n"); kpk_resolve(i, "m", "e");')
        source = f"{bad('engine')}.c"
        harmless(folder, ("lookups", source), ("lookups", "--json", source), ("lookups", bad("x")), ("lookups", "--call", bad("x"), source))


@test("words of the command line, and files that are not there")
def _():
    with Folder() as folder:
        images(folder)
        same(harmless(folder, (bad("x"),), ("list", f"--{bad('x')}", "a.kpk"), ("help", bad("x")), ("diff", "--fail-on", bad("x"), "a.kpk", "b.kpk"),
                      ("diff", "--fail-on", "size=" + bad("x"), "a.kpk", "b.kpk"), ("embed", "--machine", bad("x"), "-o", "o.o", "a.kpk"),
                      ("cache", bad("x")), ("build", "-j", bad("x"), "t.lua"), ("build", "--progress", bad("x"), "t.lua")), {2})
        same(harmless(folder, ("build", bad("x.lua")), ("explain", bad("x.lua")), ("header", "-o", "h", bad("x.lua")), ("doctor", "--cuda", bad("x"))), {1})


main()
