#!/usr/bin/env python3
"""The tests of the commands that read images, and of header, with the aarch64 kpack under qemu-user."""
import os
import re
import subprocess
import sys

import arm64

FILES = ["audit", "coverage", "diff", "header", "image"]

arm64.need()
number, bad = 0, False
for name in FILES:
    done = subprocess.run([os.path.join(arm64.ROOT, "tests", "cli", f"{name}.t")], cwd=arm64.ROOT, timeout=250,
                          env=dict(os.environ, KPACK_TEST_OUT="tests/arm"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace")
    plan = re.search(r"^1\.\.(\d+)", text, re.M)
    found = re.findall(r"^(ok|not ok) \d+ - (.*)$", text, re.M)
    if not plan or int(plan[1]) != len(found) or (done.returncode != 0 and not any(w == "not ok" for w, _ in found)):
        found.append(("not ok", f"ended with status {done.returncode}"))
    if any(word == "not ok" for word, _ in found):
        bad = True
        print("\n".join("# " + line for line in text.splitlines()))
    for word, test in found:
        number += 1
        print(f"{word} {number} - {name}: {test}")
print(f"1..{number}")
sys.exit(bad)
