#!/usr/bin/env python3
"""The man page names every command and option of the command table, and every field of the JSON."""
import json
import os
import re

from harness import ROOT, Folder, check, kpack, main, read, same, test, write
from images import describe, module

PAGE = os.path.join(ROOT, "src", "cli", "kpack.1")


def commands():
    listing = kpack("help").out.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listing.splitlines()]


def section(command):
    return re.search(rf"^\.Ss {command}$(.*?)^\.(?:Ss|Sh) ", read(PAGE).decode(), re.M | re.S)


@test("every command has its section")
def _():
    check(len(commands()) >= 6, commands())
    for command in commands():
        check(section(command), f"no section on '{command}'")


@test("every option is under its command, and no other")
def _():
    for command in commands():
        options = kpack("help", command).out.split("\nOptions:\n")[1]
        wanted, short = set(), set()  # a letter beside a long name may be there, and need not
        for line in options.splitlines():
            letter = re.match(r"  -(\w)", line)
            long = re.search(r"--([\w-]+)", line)
            wanted.add(f"-{long[1]}" if long else letter[1])
            if letter and long:
                short.add(letter[1])
        wanted -= {"-help", "h"}
        found = set(re.findall(r"^\.It Fl (\S+)", section(command)[1], re.M))
        same(found - short, wanted, command)


@test("the environment variables that the tool reads are in it")
def _():
    page = read(PAGE).decode()
    names = set()
    for folder in ("base", "cli", "compile", "target"):
        for where, _, files in os.walk(os.path.join(ROOT, "src", folder)):
            for name in files:
                if name.endswith(".c"):
                    names |= set(re.findall(r'getenv\("(\w+)"\)',
                                            read(os.path.join(where, name)).decode()))
    names -= {"PATH", "TERM"}
    for name in sorted(names):
        check(re.search(rf"^\.It Ev .*\b{name}\b", page, re.M), f"'{name}' is not in the page")


def fields(value, named=("constants", "parts")):
    """The names of all fields; those of objects in `named` are the images' own."""
    if isinstance(value, list):
        return set().union(*(fields(v) for v in value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(fields(list(v.values()) if k in named and isinstance(v, dict) else v) for k, v in value.items()))


@test("every field of the JSON is under its command")
def _():
    twin = {"name": "stack", "twin_of": "alpha:plain", "bits": "same"}
    with Folder() as folder:
        for name, tile in (("a", 64), ("b", 128)):
            describe(folder, name, modules=[module("alpha", entries=["plain", twin], constants={"TILE": tile})])
        write(f"{folder}/a.c", 'kpk_resolve(i, "alpha", "plain"); kpk_resolve(i, "no", "no"); kpk_resolve(i, m, e);')
        write(f"{folder}/list", kpack("lookups", "a.c", cwd=folder).out)
        golden_image = os.path.join(ROOT, "tests", "golden", "v1.kpk")
        for command, *words in (("list", golden_image), ("verify", "a.kpk"), ("diff", "a.kpk", "b.kpk"),
                                ("coverage", "a.kpk", "b.kpk"), ("audit", "a.kpk", "--lookups=list"), ("lookups", "a.c"),
                                ("size", "a.kpk")):
            found = fields(json.loads(kpack(command, "--json", *words, cwd=folder).out))
            check(len(found) > 3, command, found)
            text = section(command)[1].split("\n.It Fl -json\n")[1]
            told = set(re.findall(r"\w+", " ".join(re.findall(r"^\.(?:Cm|Pq) (.*)", text, re.M))))
            same(sorted(found - told), [], command)


main()
