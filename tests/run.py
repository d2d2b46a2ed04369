#!/usr/bin/env python3
"""Runs every test that needs no GPU and ends with 'N passed, N failed, N skipped'.

A test is a program that prints TAP: the unit tests' binaries (out/tests/ and out/san/tests/) and every
executable tests/*/*.t. KPACK_TEST_OUT names one build whose binaries alone are run. Arguments pick tests whose path contains one of them. The longest of the last
run start first; a failing test's output is shown whole.
"""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.environ.get("KPACK_TEST_OUT")  # one build alone, such as out/cov
TIMES = os.path.join(ROOT, "out", "test-times.json")
TIME_LIMIT = 300  # seconds for one program
RESULT = re.compile(r"^(not ok|ok)\b[ \d-]*(.*)$")

running = set()  # leaders of the process groups of running tests
running_lock = threading.Lock()
stopping = threading.Event()


def find_tests():
    found = []
    for folder in [f"{OUT}/tests"] if OUT else ["out/tests", "out/san/tests"]:
        full = os.path.join(ROOT, folder)
        for name in sorted(os.listdir(full)) if os.path.isdir(full) else []:
            # A binary whose source is gone is left over from an earlier build.
            if os.path.exists(os.path.join(ROOT, "tests", "unit", name + ".c")):
                found.append(f"{folder}/{name}")
    tests = os.path.join(ROOT, "tests")
    for folder in sorted(os.listdir(tests)):
        full = os.path.join(tests, folder)
        for name in sorted(os.listdir(full)) if os.path.isdir(full) else []:
            if name.endswith(".t"):
                found.append(f"tests/{folder}/{name}")
    return found


def read_times():
    try:
        with open(TIMES, encoding="utf-8") as file:
            times = json.load(file)
        return {path: float(seconds) for path, seconds in times.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def write_times(times):
    try:
        os.makedirs(os.path.dirname(TIMES), exist_ok=True)
        aside = f"{TIMES}.{os.getpid()}"
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(times, file, indent=0, sort_keys=True)
        os.replace(aside, TIMES)
    except OSError:
        pass  # only the order of the next run hangs on it


def longest_first(tests, times):
    """What has never run may be long."""
    return sorted(tests, key=lambda path: -times.get(path, float("inf")))


def kill_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def run_one(path):
    """Runs one program in a process group of its own, which does not outlive it."""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", LC_ALL="C.UTF-8")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1")
    # Make's own variables would reach the makes that tests start.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
        env.pop(name, None)
    start = time.monotonic()
    # A file, not a pipe: a process left behind cannot keep the runner waiting for its end.
    # Nor is the user's cache of kernels read or filled.
    with tempfile.TemporaryFile() as output, \
            tempfile.TemporaryDirectory(prefix="kpack-cache-", ignore_cleanup_errors=True) as cache:
        env["KPACK_CACHE"] = cache
        try:
            with running_lock:  # so that a signal finds every child that there is
                if stopping.is_set():
                    return path, "not run", "", 0.0
                child = subprocess.Popen([os.path.join(ROOT, path)], cwd=ROOT, env=env,
                                         stdin=subprocess.DEVNULL, stdout=output,
                                         stderr=subprocess.STDOUT, start_new_session=True)
                running.add(child.pid)
        except OSError as error:
            return path, str(error), "", 0.0
        try:
            status = child.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            status = f"time-out after {TIME_LIMIT} s"
        kill_group(child.pid)
        child.wait()
        with running_lock:
            running.discard(child.pid)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return path, status, text, time.monotonic() - start


def count(status, output):
    """Returns (passed, failed, skipped); a crash or a wrong plan is a failure of its own."""
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
    if status == 0 and plan and plan[1] == "0" and re.search(r"#\s*skip", output, re.I):
        skipped += 1
    elif not plan or int(plan[1]) != ran or ran == 0 or (status != 0 and not failed):
        failed += 1
    return passed, failed, skipped


def report(path, status, output, seconds):
    passed, failed, skipped = count(status, output)
    if failed:
        print(f"---- {path} (status {status})")
        print(output.rstrip())
        print(f"---- end of {path}")
    print(f"{path}: {passed} passed, {failed} failed, {skipped} skipped ({seconds:.1f} s)")
    if not failed:
        for line in output.splitlines():
            if re.search(r"#\s*skip", line, re.I):
                print(f"    {line}")
    sys.stdout.flush()
    return passed, failed, skipped


def stop(signum, _frame):
    stopping.set()
    with running_lock:
        for leader in running:
            kill_group(leader)
    print(f"stopped by signal {signum}")
    sys.stdout.flush()
    os._exit(128 + signum)


def main():
    tests = find_tests()
    if len(sys.argv) > 1:
        tests = [t for t in tests if any(word in t for word in sys.argv[1:])]
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, stop)
    times = read_times()
    tests = longest_first(tests, times)
    totals = [0, 0, 0]
    failing = []
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_one, t) for t in tests]):
            path, status, output, seconds = done.result()
            result = report(path, status, output, seconds)
            totals = [a + b for a, b in zip(totals, result)]
            if result[1]:
                failing.append(path)
            times[path] = round(seconds, 2)
    write_times(times)
    if not tests:
        totals[1] = 1
        print("no test found")
    for path in sorted(failing):
        print(f"failed: {path}")
    print(f"{len(tests)} programs in {time.monotonic() - start:.0f} s")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
