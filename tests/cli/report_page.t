#!/usr/bin/env python3
"""A report's page in headless Chromium: it shows, sorts, searches, stays inert, reads well. Once: the bytes are one tool's or the other's alike."""
import os
import sys

import harness
from browser import Browser, chromium
from harness import ROOT, Folder, Skip, check, kpack, read, run_tests, same, test
from images import OTHER_CUBIN, describe, module, patched

EVIL = "</script><img src=x onerror=\"document.title='hurt'\">"
SIZES = ((1600, 1000), (390, 844))

# The worst contrast of a text with what is behind it, as WCAG 2 counts it, and the text.
CONTRAST = """(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3]) return c; }
    return [255, 255, 255, 1]; };
  let worst = [99, ""], texts = 0;
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || ["SCRIPT", "title", "OPTION"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    let ink, paper;
    if (e.tagName === "text") {
      const tab = e.classList.contains("module") ? e.previousElementSibling : e.parentElement.querySelector("rect");
      [ink, paper] = [parse(style.fill), parse(getComputedStyle(tab).fill)];
    } else [ink, paper] = [parse(style.color), ground(e)];
    const alpha = ink[3] * Number(style.opacity);
    ink = ink.map((v, i) => v * alpha + paper[i] * (1 - alpha));
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    texts += 1;
    if (ratio < worst[0]) worst = [ratio, e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 40)];
  }
  return [...worst, texts];
})()"""

browser = None  # one for all tests, started by main


def column(table, place):
    return browser.value(f"[...document.querySelectorAll('#{table}-table tbody tr:not([hidden])')].map(r => r.cells[{place}].textContent)")


def quiet(path):
    same((browser.complaints, browser.requests), ([], ["file://" + path]))


def shows_everywhere(path):
    """Every size, light and dark: nothing runs off the page, and all text stands out."""
    for width, height in SIZES:
        for dark in (False, True):
            browser.open(path, width, height, dark, mobile=width < 500)
            quiet(path)
            same(browser.value("document.documentElement.scrollWidth"), width)
            worst, text, _ = browser.value(CONTRAST)
            check(worst >= 4.5, dark, worst, text)


def write_report(folder, *images):
    result = kpack("report", "-o", "r.html", *images, cwd=folder)
    same(result.status, 0, result)
    return f"{folder}/r.html"


def sample(folder):
    fast = patched(folder, "fast.cubin", "plain")
    base = module("base", entries=[{"name": "plain", "spill": 1234, "block": [32, 8, 1], "dynamic_smem": 9000},
                                   {"name": "stack", "spill": 0, "dynamic_smem": 70000}, {"name": "static_smem", "dynamic_smem": 800}])
    describe(folder, "one", target="one", modules=[
        base, module("fast", fast, [{"name": "plain", "twin_of": "base:plain", "bits": "same"}])],
        levers=[{"name": "tc", "env": "TC", "kind": 0, "on": True}], absent=[["m", "g", "why not"]])
    describe(folder, "two", target="two", arch="sm_121a", modules=[base, module("other", OTHER_CUBIN, ["plain", "stack"])])
    return write_report(folder, "one.kpk", "two.kpk")


@test("it shows in light and dark, wide and narrow, without a complaint or a request, and never wider than the window")
def _():
    with Folder() as folder:
        path = sample(folder)
        grounds = set()
        for width, height in SIZES:
            for dark in (False, True):
                browser.open(path, width, height, dark, mobile=width < 500)
                quiet(path)
                same(browser.value("document.title"), "one, two: kernel image report")
                same(browser.value("document.documentElement.scrollWidth"), width)
                grounds.add(browser.value("getComputedStyle(document.body).backgroundColor"))
                shown = browser.value("[...document.querySelectorAll('.map')].map(m => m.checkVisibility())")
                same(shown, [width > 500, width < 500] * 2)
        same(len(grounds), 2, grounds)


@test("a click on a head sorts, a second one the other way, and what is not known stays last")
def _():
    with Folder() as folder:
        browser.open(sample(folder))
        smem = "#entries-table thead th:nth-child(8)"
        expected = ["70,000", "70,000", "9,000", "9,000", "800", "800", "\u2013", "\u2013", "\u2013"]
        for way, found in (("descending", expected), ("ascending", expected[5::-1] + expected[6:]), ("descending", expected)):
            browser.click(f"{smem} button")
            same((column("entries", 7), browser.value(f"document.querySelector('{smem}').ariaSort")), (found, way))
        browser.click("#entries-table thead th:nth-child(3) button")
        same(column("entries", 2), ["plain"] * 4 + ["stack"] * 3 + ["static_smem"] * 2)
        same(browser.value("document.querySelectorAll('[aria-sort]').length"), 1)
        browser.click("#diff-table thead th:nth-child(6) button")
        same(browser.complaints, [])


@test("typing searches, boxes and the list of targets filter, and the count says how many")
def _():
    with Folder() as folder:
        browser.open(sample(folder))
        tools = ".tools[data-of=entries-table]"
        count = f"document.querySelector('{tools} output').textContent"
        same(browser.value(count), "9 entries")
        browser.click(f"{tools} input[type=search]")
        browser.type("BASE plain")
        same((browser.value(count), column("entries", 1)), ("3 of 9 entries", ["base", "fast", "base"]))
        for _ in "BASE plain":
            browser.press("Backspace")
        browser.type("nowhere")
        same((browser.value(count), column("entries", 1)), ("0 of 9 entries", []))
        for _ in "nowhere":
            browser.press("Backspace")
        same(browser.value(count), "9 entries")
        browser.click(f"{tools} label:nth-of-type(1) input")
        same((browser.value(count), column("entries", 5)), ("2 of 9 entries", ["1,234"] * 2))
        browser.click(f"{tools} label:nth-of-type(1) input")
        browser.click(f"{tools} label:nth-of-type(2) input")
        same(column("entries", 10), ["same base:plain"])
        browser.click(f"{tools} label:nth-of-type(2) input")
        browser.value(f"document.querySelector('{tools} select').focus()")
        browser.type("two")
        same((browser.value(count), set(column("entries", 0))), ("5 of 9 entries", {"two"}))
        same(browser.complaints, [])


@test("two bundles: differences by target, which sort, search and filter like the entries")
def _():
    with Folder() as folder:
        sample(folder)
        base = module("base", entries=[{"name": "plain", "spill": 2048}, "stack"])
        describe(folder, "new", target="one", modules=[base])
        describe(folder, "else", target="else", arch="sm_100a", modules=[base])
        for name, parts in (("a.kpk", ("one.kpk", "two.kpk")), ("b.kpk", ("new.kpk", "else.kpk"))):
            same(kpack("bundle", "-o", name, *parts, cwd=folder).status, 0)
        path = write_report(folder, "a.kpk", "b.kpk")
        shows_everywhere(path)
        browser.open(path)
        same(browser.value("document.querySelector('nav a[href=\"#diff\"]').textContent"), "Differences")
        tools = ".tools[data-of=diff-table]"
        count = f"document.querySelector('{tools} output').textContent"
        total = len(column("diff", 0))
        same(set(column("diff", 0)), {"one", "two", "else"})
        same(browser.value(count), f"{total} differences")
        browser.click(f"{tools} input[type=search]")
        browser.type("target")
        same((browser.value(count), column("diff", 6)), (f"2 of {total} differences", ["added", "removed"]))
        for _ in "target":
            browser.press("Backspace")
        browser.value(f"document.querySelector('{tools} select').focus()")
        browser.type("one")
        same((browser.value(count), set(column("diff", 0))), (f"{total - 2} of {total} differences", {"one"}))
        browser.click("#diff-table thead th:nth-child(7) button")
        same(browser.complaints, [])


@test("cells of the treemap lead to their rows, by mouse and by keyboard, also to those filtered out")
def _():
    with Folder() as folder:
        browser.open(sample(folder))
        browser.click(".tools[data-of=entries-table] input[type=search]")
        browser.type("nowhere")
        browser.click(".map.wide a[aria-label^='base:stack']")
        row = "document.querySelector('tr:target')"
        browser.until(f"{row} && !{row}.hidden")
        same(browser.value(f"[location.hash, {row}.cells[2].textContent]"), ["#e1-1", "stack"])
        browser.until(f"(r => r.top >= 0 && r.bottom <= innerHeight)({row}.getBoundingClientRect())")
        browser.value("document.querySelector('.map.wide a').focus()")
        browser.press("Tab")
        same(browser.value("document.activeElement === document.querySelectorAll('.map.wide a')[1]"), True)
        check(browser.value("document.activeElement.getAttribute('aria-label')").count(" B"))
        browser.press("Enter", "\r")
        browser.until("location.hash === document.querySelectorAll('.map.wide a')[1].getAttribute('href')")
        same(browser.complaints, [])


@test("what the treemap shows is in the ratio of the bytes")
def _():
    with Folder() as folder:
        path = sample(folder)
        for width, height in SIZES:
            browser.open(path, width, height)
            cells = browser.value("""[...document.querySelectorAll('.map')].filter(m => m.checkVisibility()).map(m =>
                [...m.querySelectorAll('rect[data-bytes]')].map(r => { const s = r.getBoundingClientRect(), f = m.getBoundingClientRect();
                return [s.width * s.height / (f.width * f.height), Number(r.dataset.bytes), r.parentElement.querySelector('title').textContent]; }))""")
            same(len(cells), 2)
            for cells_of, name in zip(cells, ("one", "two")):
                size = os.path.getsize(f"{folder}/{name}.kpk")
                for share, count, title in cells_of:
                    check(abs(share / (count / size) - 1) < 0.01, width, share, count, size, title)
                    check(f"{count:,} B" in title, title)


@test("every text stands out from its ground by 4.5 to 1, in light and dark")
def _():
    with Folder() as folder:
        path = sample(folder)
        for dark in (False, True):
            for width, height in SIZES:
                browser.open(path, width, height, dark)
                worst, text, texts = browser.value(CONTRAST)
                check(worst >= 4.5 and texts > 100, dark, worst, text, texts)


@test("without scripts the tables are there, and nothing that would need one")
def _():
    with Folder() as folder:
        path = sample(folder)
        browser.open(path, script=False)
        # The protocol's own evaluation still runs.
        same(len(column("entries", 0)), 9)
        same(browser.value("[...document.querySelectorAll('.tools, button, input, select')].filter(e => e.checkVisibility()).length"), 0)
        quiet(path)


@test("on paper it is whole: nothing scrolls, nothing to click")
def _():
    with Folder() as folder:
        browser.open(sample(folder), 1000, 700)
        browser.call("Emulation.setEmulatedMedia", media="print", features=[])
        same(browser.value("[...document.querySelectorAll('.scroll')].filter(s => s.clientHeight < s.firstElementChild.clientHeight || s.scrollWidth > s.clientWidth).length"), 0)
        same(browser.value("[...document.querySelectorAll('nav, .tools')].filter(e => e.checkVisibility()).length"), 0)
        browser.call("Emulation.setEmulatedMedia", media="", features=[])
        browser.pdf(f"{folder}/r.pdf")
        check(read(f"{folder}/r.pdf").startswith(b"%PDF"))


@test("names that are markup do nothing")
def _():
    with Folder() as folder:
        fast = patched(folder, "p.cubin", "plain")
        describe(folder, "a", target=EVIL, arch=EVIL, stamp=EVIL, levers=[{"name": EVIL, "env": EVIL, "kind": 3, "text": EVIL}],
                 absent=[[EVIL, EVIL, EVIL]], modules=[module(EVIL, fast, [{"name": EVIL, "symbol": "plain", "twin_of": EVIL, "bits": "same"}],
                                                              source=EVIL, flags=[EVIL], constants={EVIL: 1})])
        describe(folder, "b", modules=[module("m", entries=["plain"])])
        path = write_report(folder, "a.kpk", "b.kpk")
        browser.open(path)
        quiet(path)
        same(browser.value("[document.title, document.images.length, document.scripts.length]"), [f"{EVIL}, some: kernel image report", 0, 1])
        same(column("entries", 2), [EVIL, "plain"])


@test("names too long for a line, and many targets, stay within the window and out of each other's way")
def _():
    with Folder() as folder:
        fast = patched(folder, "fast.cubin", "plain")
        names = ["long_" * 60, "n" * 250, "a", "b", "c"]
        for i, name in enumerate(names):
            describe(folder, f"{i}", target=name, modules=[
                module(name, entries=[{"name": name, "symbol": "plain"}], constants={name: i}, flags=[name]),
                module("m", fast, [{"name": "e", "symbol": "plain", "twin_of": f"{name}:{name}", "bits": "same"}], source=name)],
                levers=[{"name": name, "env": name, "kind": 3, "text": name}], absent=[["x", "y", name * 3]])
        for words in ([f"{i}.kpk" for i in range(5)], ["0.kpk", "1.kpk"]):
            path = write_report(folder, *words)
            for width, height in SIZES:
                browser.open(path, width, height, mobile=width < 500)
                quiet(path)
                same(browser.value("document.documentElement.scrollWidth"), width, words)
                same(browser.value("""[...document.querySelectorAll('td, th, dd, h3, .path, figcaption')].filter(e =>
                    e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 200))"""), [])
                same(browser.value("""[...document.querySelectorAll('.map')].filter(m => m.checkVisibility()).flatMap(m => [...m.querySelectorAll('text')].filter(t => {
                    const r = t.getBoundingClientRect(), f = m.getBoundingClientRect(); return r.right > f.right + 1 || r.bottom > f.bottom + 1; }).map(t => t.textContent))"""), [])


@test("our own images' report shows everywhere")
def _():
    images = [f"{ROOT}/out/{name}.kpk" for name in ("hopper", "gb10")]
    if not all(os.path.exists(i) for i in images):
        raise Skip("no images in out/: make images")
    with Folder() as folder:
        path = write_report(folder, *images)
        shows_everywhere(path)


def main():
    global browser
    try:
        chromium()
    except Skip as reason:
        print(f"1..1\nok 1 - the page in a browser # SKIP {reason}")
        return 0
    with Browser() as browser:
        count, failed = run_tests(harness.KPACK, sys.argv[1:], 1)
    print(f"1..{count}")
    return failed


sys.exit(main())
