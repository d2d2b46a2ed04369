#!/usr/bin/env python3
"""The unit tests as built for aarch64, under qemu-user."""
import os
import re
import subprocess
import sys

import arm64

# Fewer random inputs than natively.
FEWER = {"test_runtime_fuzz": "4000", "test_runtime_groups": "20"}


def run(name):
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    if name in FEWER:
        env["KPK_FUZZ_RUNS"] = FEWER[name]
    done = subprocess.run([*arm64.QEMU, os.path.join(arm64.OUT, "tests", name)], cwd=arm64.ROOT, env=env, timeout=250,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return name, done.returncode, done.stdout.decode("utf-8", "replace")


def results(name, status, text):
    """TAP lines without their numbers; cmocka prints a skipped test as 'not ok', after our reason."""
    reason = re.findall(r"^# SKIP (.*)$", text, re.M)
    plan = re.search(r"^1\.\.(\d+)", text, re.M)
    found = re.findall(r"^(ok|not ok) [1-9]\d* (- |# SKIP )(\w+)", text, re.M)
    for word, kind, test in found:
        skipped = f" # SKIP {reason.pop(0) if reason else 'without a reason'}" if kind.startswith("#") else ""
        yield ("ok" if skipped else word) + " {} - " + f"{name}: {test}{skipped}"
    failed = any(word == "not ok" and kind == "- " for word, kind, _ in found)
    if not plan or int(plan[1]) != len(found) or (status != 0 and not failed):
        yield "not ok {} - " + f"{name} ended with status {status}"


arm64.need()
sources = os.path.join(arm64.ROOT, "tests", "unit")
names = sorted(n for n in os.listdir(os.path.join(arm64.OUT, "tests"))
               if os.path.exists(os.path.join(sources, n + ".c")))
number, bad = 0, False
for name, status, text in map(run, names):
    lines = list(results(name, status, text))
    if any(line.startswith("not ok") for line in lines):
        bad = True
        print("\n".join("# " + line for line in text.splitlines()))
    for line in lines:
        number += 1
        print(line.format(number))
print(f"1..{number}")
sys.exit(bad)
