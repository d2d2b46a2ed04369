#!/usr/bin/env python3
"""The man page names every command and option of the command table."""
import os
import re

from harness import ROOT, check, kpack, main, read, same, test

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


main()
