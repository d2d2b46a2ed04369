#!/usr/bin/env python3
"""Runs every test that needs no GPU and ends with 'N passed, N failed, N skipped'.

A test is a program that prints TAP: the unit tests' binaries (out/tests/ and out/san/tests/) and every
executable tests/*/*.t. Arguments pick tests whose path contains one of them.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIME_LIMIT = 300  # seconds for one program
RESULT = re.compile(r"^(not ok|ok)\b[ \d-]*(.*)$")


def find_tests():
    found = []
    for folder in ("out/tests", "out/san/tests"):
        full = os.path.join(ROOT, folder)
        names = sorted(os.listdir(full)) if os.path.isdir(full) else []
        found += [f"{folder}/{name}" for name in names if name.startswith("test_")]
    tests = os.path.join(ROOT, "tests")
    for folder in sorted(os.listdir(tests)):
        full = os.path.join(tests, folder)
        if os.path.isdir(full):
            found += [f"tests/{folder}/{n}" for n in sorted(os.listdir(full)) if n.endswith(".t")]
    return found


def run_one(path):
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", LC_ALL="C.UTF-8")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1")
    start = time.monotonic()
    try:
        done = subprocess.run([os.path.join(ROOT, path)], cwd=ROOT, env=env, timeout=TIME_LIMIT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        status, output = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as late:
        status, output = "time-out", (late.stdout or b"").decode("utf-8", "replace")
    except OSError as error:
        status, output = str(error), ""
    return path, status, output, time.monotonic() - start


def count(path, status, output):
    """Returns (passed, failed, skipped); a crash or a missing plan is a failure of its own."""
    passed = failed = skipped = 0
    plan = re.search(r"^1\.\.(\d+)", output, re.M)
    for line in output.splitlines():
        match = RESULT.match(line)
        if match and match[1] == "not ok":
            failed += 1
        elif match and re.search(r"#\s*skip", match[2], re.I):
            skipped += 1
        elif match:
            passed += 1
    ran = passed + failed + skipped
    if plan and plan[1] == "0" and re.search(r"#\s*skip", output, re.I):
        skipped += 1
    elif not plan or int(plan[1]) != ran or (status != 0 and not failed):
        failed += 1
    if failed:
        print(f"---- {path} (status {status})")
        print(output.rstrip())
    return passed, failed, skipped


def main():
    tests = find_tests()
    if len(sys.argv) > 1:
        tests = [t for t in tests if any(word in t for word in sys.argv[1:])]
    totals = [0, 0, 0]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, status, output, seconds in pool.map(run_one, tests):
            result = count(path, status, output)
            totals = [a + b for a, b in zip(totals, result)]
            print(f"{path}: {result[0]} passed, {result[1]} failed, {result[2]} skipped"
                  f" ({seconds:.1f} s)", flush=True)
    if not tests:
        totals[1] = 1
        print("no test found")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
