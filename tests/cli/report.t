#!/usr/bin/env python3
"""report: the page's contents, names that would be markup, two images, what cannot be read or written."""
import html.parser
import os
import re
import shutil

from harness import Folder, Skip, check, golden, kpack, main, read, same, test, unprivileged, write
from images import CUBIN, OTHER_CUBIN, damaged_is_refused, describe, module, patched
from project import Mounted, left_behind

EVIL = "</script><img src=x onerror=\"document.title='hurt'\">&amp;'"


class Page(html.parser.HTMLParser):
    """The page as a browser without scripts has it: tables by id, rows as texts; sections; treemaps."""

    def __init__(self, text):
        super().__init__()
        self.text, self.tags, self.ids, self.links = text, {}, [], []
        self.tables, self.row, self.cell, self.words, self.cells = {}, None, None, [], []
        self.map = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name in found:
            check(not name.startswith("on") and name not in ("src", "style"), tag, attrs)
        if "id" in found:
            self.ids.append(found["id"])
        if "href" in found:
            check(found["href"].startswith("#"), attrs)
            self.links.append(found["href"][1:])
        if tag == "table":
            self.table = self.tables.setdefault(found["id"].removesuffix("-table"), [])
        elif tag == "tr":
            self.row = []
            self.table.append(self.row)
        elif tag in ("td", "th"):
            self.cell = ""
        elif tag == "svg" and "map" in found.get("class", ""):
            self.map = (found["class"], [float(x) for x in found["viewbox"].split()])
        elif tag == "rect" and "data-bytes" in found:
            box = [float(found[k]) for k in ("x", "y", "width", "height")]
            self.cells.append((*self.map, int(found["data-bytes"]), box))

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.row.append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data
        self.words.append(data)

    def column(self, table, head):
        rows = self.tables[table]
        return [row[rows[0].index(head)] for row in rows[1:]]


def report(folder, *images, output="r.html", **more):
    return kpack("report", "-o", output, *images, cwd=folder, **more)


def page(folder, *images):
    result = report(folder, *images)
    same((result.status, result.err), (0, ""), result)
    return Page(read(f"{folder}/r.html").decode())


def images(folder):
    """Two images of one family, and a third on its own."""
    fast = patched(folder, "fast.cubin", "plain")
    base = module("base", entries=[{"name": "plain", "spill": 1234567, "block": [32, 8, 1], "dynamic_smem": 232448},
                                   {"name": "stack", "spill": 0}, "static_smem"], constants={"ROWS": 64})
    levers = [{"name": "tc", "env": "TC", "kind": 0, "on": True}, {"name": "mode", "env": "MODE", "kind": 3, "text": "slow"}]
    describe(folder, "one", target="one", sm_count=132, smem_optin=232448, levers=levers, absent=[["m", "g", "why not"], ["n", "h", "no"]],
             modules=[base, module("fast", fast, [{"name": "plain", "twin_of": "base:plain", "bits": "same"}])])
    describe(folder, "two", target="two", arch="sm_121a", levers=[{**levers[0], "on": False}], absent=[["m", "g", "why not"]],
             modules=[{**base, "constants": {"ROWS": 128}}, module("equal", CUBIN, [{"name": "plain", "twin_of": "base:plain", "bits": "close"}])])
    describe(folder, "three", target="two", modules=[module("other", OTHER_CUBIN, ["plain"])])
    return "one.kpk", "two.kpk", "three.kpk"


@test("one image: every figure of its entries, levers, expected absences")
def _():
    with Folder() as folder:
        found = page(folder, images(folder)[0])
        same(found.tables["entries"],
             [["Module", "Entry", "Block", "Registers", "Spills,\xa0B", "Static smem,\xa0B", "Dynamic smem,\xa0B", "Stack,\xa0B", "Code,\xa0B", "Twin"],
              ["base", "plain", "32x8", "8", "1,234,567", "0", "232,448", "0", "384", "\u2013"],
              ["base", "stack", "\u2013", "70", "0", "0", "\u2013", "256", "2,944", "\u2013"],
              ["base", "static_smem", "\u2013", "10", "\u2013", "1,200", "\u2013", "0", "512", "\u2013"],
              ["fast", "plain", "\u2013", "8", "\u2013", "0", "\u2013", "0", "384", "same base:plain"]])
        same(found.tables["levers"], [["Lever", "Variable", "Kind", "one"], ["mode", "MODE", "text", "'slow'"], ["tc", "TC", "switch", "on"]])
        same(found.tables["absent"], [["Module or entry", "Reason", "one"], ["m:g", "why not", "declared"], ["n:h", "no", "declared"]])
        same(found.tables["twins"], [["Parent, twins", "one"], ["base:plain", "shipped"], ["fast:plain", "same"]])
        same(found.column("alone", "Entry"), ["base:stack", "base:static_smem"])
        check("diff" not in found.tables and "constants" not in found.tables, found.tables.keys())
        text = "".join(found.words)
        for words in ("sm_90a, compute 9.0", "132 multiprocessors, 227.0 KiB", "1: 1 with the same bits, 0 with close", "of 2 entries"):
            check(words in text, words)


@test("two images: twins by target, the constants that differ, and what diff says")
def _():
    with Folder() as folder:
        found = page(folder, *images(folder)[:2])
        same(set(found.column("entries", "Target")), {"one", "two"})
        same(found.tables["twins"], [["Parent, twins", "one", "two"], ["base:plain", "shipped", "shipped"],
                                     ["equal:plain", "\u2013", "equal code"], ["fast:plain", "same", "\u2013"]])
        same(found.tables["constants"][1:], [["base", "ROWS", "64", "128"]])
        same(found.tables["levers"][1:], [["mode", "MODE", "text", "'slow'", "\u2013"], ["tc", "TC", "switch", "on", "off"]])
        same(found.tables["absent"][1:], [["m:g", "why not", "declared", "declared"], ["n:h", "no", "declared", "\u2013"]])
        check("1 twin has the machine code of its parent" in "".join(found.words))
        rows = found.tables["diff"][1:]
        check(["base", "", "constant ROWS", "64", "128", "+64"] in rows, rows)
        check(["fast", "plain", "entry", "shipped", "\u2013", "removed"] in rows, rows)
        said = kpack("diff", "one.kpk", "two.kpk", cwd=folder).out
        same(f"{len(rows)} differences" in said, True, said)


@test("an image beside itself has no difference, and three images have no such section")
def _():
    with Folder() as folder:
        one, two, three = images(folder)
        found = page(folder, one, one)
        check("The images do not differ." in "".join(found.words) and "diff" not in found.tables)
        same(set(found.column("entries", "Target")), {"one 1", "one 2"})
        found = page(folder, one, two, three)
        check("diff" not in found.ids and "diff" not in found.links, found.ids)
        same(found.tables["levers"][0][3:], ["one", "two 2", "two 3"])


@test("a bundle's parts are images of their own, and --target takes one")
def _():
    with Folder() as folder:
        one, two, _ = images(folder)
        same(kpack("bundle", "-o", "all.kpk", one, two, cwd=folder).status, 0)
        found, apart = page(folder, "all.kpk"), page(folder, one, two)
        for table in ("entries", "modules", "twins", "levers", "diff"):
            same(found.tables[table], apart.tables[table], table)
        check("all.kpk[two]" in "".join(found.words))
        same(page(folder, "all.kpk", "--target", "two").tables["entries"], page(folder, two).tables["entries"])
        check("diff" not in page(folder, "all.kpk", one, two).ids, "three files, and a comparison")
        result = report(folder, "all.kpk", "--target", "three")
        check(result.status == 1 and "'three'" in result.err, result)


@test("two bundles, or a bundle and an image, are compared target by target, as diff does it")
def _():
    with Folder() as folder:
        one, two, _ = images(folder)
        describe(folder, "new", target="one", modules=[module("base", entries=[{"name": "plain", "spill": 8}])])
        describe(folder, "else", target="else", arch="sm_100a", modules=[module("m", entries=["plain"])])
        for name, parts in (("a.kpk", (one, two)), ("b.kpk", ("new.kpk", two, "else.kpk"))):
            same(kpack("bundle", "-o", name, *parts, cwd=folder).status, 0)
        found = page(folder, "a.kpk", "b.kpk")
        head, *rows = found.tables["diff"]
        same(head, ["Target", "Module", "Entry", "What", "Before", "After", "Change"])
        pair = page(folder, one, "new.kpk").tables["diff"][1:]
        same([r[1:] for r in rows if r[0] == "one"], pair)
        check(["base", "plain", "spilled bytes", "1.2 MiB", "8 B", "-1.2 MiB"] in pair, pair)
        same([r for r in rows if r[0] != "one"], [["else", "image", "", "target", "\u2013", "shipped", "added"]])
        check("From a.kpk to b.kpk, target by target." in "".join(found.words).replace("\u200b", ""))
        same(found.tables["entries"][0][0], "Target")
        same(set(found.column("entries", "Target")), {"one 1", "one 4", "two 2", "two 5", "else"})
        rows = page(folder, "b.kpk", two).tables["diff"][1:]
        same(rows, [[t, "image", "", "target", "shipped", "\u2013", "removed"] for t in ("else", "one")])
        rows = page(folder, "a.kpk", "b.kpk", "--target", "one").tables["diff"][1:]
        same(rows, pair)
        found = page(folder, "a.kpk", "a.kpk")
        check("The images do not differ." in "".join(found.words) and "diff" not in found.tables)


@test("the treemap's cells tile it, in the ratio of their bytes, for wide windows and narrow ones")
def _():
    with Folder() as folder:
        one = images(folder)[0]
        found = page(folder, one)
        size = os.path.getsize(f"{folder}/{one}")
        for kind in ("map wide", "map narrow"):
            cells = [c for c in found.cells if c[0] == kind]
            same(sum(c[2] for c in cells), size, kind)
            for _, (_, _, width, height), count, (_, _, w, h) in cells:
                check(abs(w * h / (width * height) * size / count - 1) < 0.01, kind, count, w, h)
        for link in found.links:
            check(link in found.ids, link)
        same(len(found.ids), len(set(found.ids)))


@test("names that are markup, or no text at all, are text")
def _():
    with Folder() as folder:
        deep = "\x1b[31m\n" + EVIL
        for name in ("a", "b"):
            describe(folder, name, target=EVIL, stamp=EVIL, levers=[{"name": EVIL, "env": EVIL, "kind": 3, "text": EVIL + name}],
                     absent=[[EVIL, EVIL, EVIL + name]], arch=EVIL,
                     modules=[module(EVIL, patched(folder, "p.cubin", "plain", 8 if name == "a" else 24), [{"name": deep, "symbol": "plain", "twin_of": EVIL + ":x", "bits": "same"}],
                                     source=EVIL, flags=[EVIL + name], constants={EVIL: 1 if name == "a" else 2})])
        shutil.copy(f"{folder}/a.kpk", f"{folder}/{EVIL.replace('/', '')}.kpk")
        found = page(folder, "a.kpk", "b.kpk")
        same((found.tags["script"], found.tags["style"], found.tags.get("img", 0)), (1, 1, 0))
        same(found.column("entries", "Entry"), [r"\x1B[31m\x0A" + EVIL] * 2)
        same(found.column("modules", "Source"), [EVIL, "\u2013"] * 2)
        check(found.text.isprintable() or all(c.isprintable() or c == "\n" for c in found.text))
        same(found.text.count("onerror"), found.text.count("onerror=&quot;"))
        found = page(folder, f"{EVIL.replace('/', '')}.kpk")
        same((found.tags["script"], found.tags.get("img", 0)), (1, 0))


@test("one file that asks nothing of the network, and obeys nothing but its own script")
def _():
    with Folder() as folder:
        text = page(folder, images(folder)[0]).text
        check("default-src 'none'" in text and "unsafe" not in text, text[:900])
        same(re.findall(r"(?:https?:)?//[\w.]+|@import|url\(", text), [])


@test("the same images give the same bytes wherever they lie, and a page that has them is left alone")
def _():
    with Folder() as folder:
        one, two, _ = images(folder)
        result = report(folder, one, two)
        same(result.status, 0, result)
        check(re.fullmatch(r"r\.html: \d+\.\d KiB\n", result.out), result)
        os.utime(f"{folder}/r.html", (1, 1))
        check(report(folder, one, two).out.endswith(", unchanged\n"))
        same(os.stat(f"{folder}/r.html").st_mtime, 1)
        os.mkdir(f"{folder}/else")
        for name in (one, two):
            shutil.copy(f"{folder}/{name}", f"{folder}/else/{name}")
        same(report(f"{folder}/else", one, two, env={"TZ": "Asia/Tokyo", "LC_ALL": "C"}).status, 0)
        same(read(f"{folder}/else/r.html"), read(f"{folder}/r.html"))


@test("a damaged or foreign image is an error of report, wherever it stands, and writes nothing")
def _():
    with Folder() as folder:
        damaged_is_refused(folder, images(folder)[0], report, "report-noise.txt")
        check(not os.path.exists(f"{folder}/r.html"))


@test("what is no report is not replaced: an image, a source, a page of somebody else's")
def _():
    with Folder() as folder:
        one = images(folder)[0]
        write(f"{folder}/mine.html", "<!DOCTYPE html>\n<html lang=\"en\">\n<title>Mine</title>")
        for name in (one, "fast.cubin", "mine.html"):
            before = read(f"{folder}/{name}")
            result = report(folder, one, output=name)
            same((result.status, result.out), (1, ""))
            check(f"will not replace '{name}': it is not a report made by kpack" in result.err, result)
            same(read(f"{folder}/{name}"), before)
        write(f"{folder}/empty.html", "")
        for images_ in ((one,), (one, "two.kpk")):
            same(report(folder, *images_, output="empty.html").status, 0)


@test("a folder, a folder that is not there, a read-only one")
def _():
    with Folder() as folder:
        one = images(folder)[0]
        os.mkdir(f"{folder}/full")
        for output in ("full", "no/r.html", ""):
            result = report(folder, one, output=output)
            check(result.status != 0 and result.out == "" and "r.html" not in os.listdir(folder), result)
        golden("report-folder.txt", report(folder, one, output="no/r.html"))
        try:
            who = unprivileged()
        except Skip:
            return
        os.chmod(folder, 0o555)
        result = report(folder, one, output="r.html", **who)
        os.chmod(folder, 0o755)
        same((result.status, result.out), (1, ""))
        check("Permission denied" in result.err and "r.html" in result.err, result)


@test("a full disk is an error, and the old page stays")
def _():
    with Folder() as folder:
        one, two, _ = images(folder)
        with Mounted(f"{folder}/out", "size=256k") as mounted:
            same(report(folder, one, output="out/r.html").status, 0)
            old = read(f"{folder}/out/r.html")
            mounted.fill()
            result = report(folder, one, two, output="out/r.html")
            same((result.status, result.out), (1, ""))
            check("No space left on device" in result.err and "r.html" in result.err, result)
            same((read(f"{folder}/out/r.html"), left_behind(folder)), (old, []))
            os.remove(f"{folder}/out/filler")
            mounted.remount("ro")
            result = report(folder, one, two, output="out/r.html")
            check(result.status == 1 and "Read-only file system" in result.err, result)
            same(read(f"{folder}/out/r.html"), old)


main()
