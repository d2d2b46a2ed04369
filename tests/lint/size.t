#!/usr/bin/env python3
"""No file of ours is longer than 650 lines: past that it is two concerns."""
import os
import sys

LIMIT = 650
FOLDERS = ("src", "tests", "lua", "targets", ".ci")
ENDINGS = (".c", ".h", ".py", ".t", ".lua", ".sh", ".css", ".js")


def too_long():
    for folder in FOLDERS:
        for where, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(where, name)
                if name.endswith(ENDINGS) and "/golden" not in where:
                    with open(path, "rb") as file:
                        lines = file.read().count(b"\n")
                    if lines > LIMIT:
                        yield f"{path}: {lines} lines"


faults = list(too_long())
print("1..1")
for fault in faults:
    print(f"# {fault}")
print(f"{'not ok' if faults else 'ok'} 1 - files have {LIMIT} lines at most")
sys.exit(bool(faults))
