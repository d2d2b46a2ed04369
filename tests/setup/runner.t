#!/usr/bin/env python3
"""tests/run.py itself: what counts as a failure, time-outs, whole output, order."""
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(os.path.dirname(HERE), "run.py")
results = []


def check(name, held, note=""):
    results.append(held)
    print(f"{'ok' if held else 'not ok'} {len(results)} - {name}")
    if not held and note:
        print("\n".join("# " + line for line in note.splitlines()))


def make_tree(root, scripts, limit=300):
    os.makedirs(os.path.join(root, "tests", "x"), exist_ok=True)
    with open(RUNNER, encoding="utf-8") as file:
        text = file.read()
    short = re.sub(r"^TIME_LIMIT = 300\b", f"TIME_LIMIT = {limit}", text, flags=re.M)
    with open(os.path.join(root, "tests", "run.py"), "w", encoding="utf-8") as file:
        file.write(short)
    for name, body in scripts.items():
        path = os.path.join(root, "tests", "x", name + ".t")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + body)
        os.chmod(path, 0o755)


def run(scripts, limit=300, words=()):
    with tempfile.TemporaryDirectory() as root:
        make_tree(root, scripts, limit)
        done = subprocess.run([sys.executable, os.path.join(root, "tests", "run.py"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout.decode()


def last(output):
    return output.splitlines()[-1]


def alive(pid):
    """A zombie that nobody has reaped yet counts as dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


def wrong_results():
    cases = [
        ("a passing test", "echo 1..2; echo ok 1 - a; echo ok 2 - b", 0, "2 passed, 0 failed, 0 skipped"),
        ("a skip", "echo 1..1; echo 'ok 1 - a # SKIP no such thing'", 0, "0 passed, 0 failed, 1 skipped"),
        ("a whole skip", "echo '1..0 # SKIP no such thing'", 0, "0 passed, 0 failed, 1 skipped"),
        ("a failing test", "echo 1..2; echo ok 1 - a; echo not ok 2 - b", 1, "1 passed, 1 failed, 0 skipped"),
        ("a missing plan", "echo ok 1 - a", 1, "1 passed, 1 failed, 0 skipped"),
        ("too few results", "echo 1..2; echo ok 1 - a", 1, "1 passed, 1 failed, 0 skipped"),
        ("a bad status", "echo 1..1; echo ok 1 - a; exit 3", 1, "1 passed, 1 failed, 0 skipped"),
        ("a crash", "echo 1..1; echo ok 1 - a; kill -SEGV $$", 1, "1 passed, 1 failed, 0 skipped"),
        ("a skip that crashes", "echo '1..0 # SKIP x'; exit 1", 1, "0 passed, 1 failed, 0 skipped"),
        ("an empty plan", "echo 1..0", 1, "0 passed, 1 failed, 0 skipped"),
        ("silence", ":", 1, "0 passed, 1 failed, 0 skipped"),
    ]
    for name, body, status, line in cases:
        code, output = run({"t": body})
        check(f"{name} gives '{line}' and status {status}", (code, last(output)) == (status, line), output)


def whole_output():
    body = "echo 1..1\ni=0\nwhile [ $i -lt 3000 ]; do echo \"# line $i\"; i=$((i+1)); done\necho not ok 1 - x"
    _, output = run({"t": body, "u": "echo 1..1; echo ok 1 - a; echo '# quiet'"})
    lines = set(output.splitlines())
    check("the output of a failing test is whole", all(f"# line {i}" in lines for i in range(3000)))
    check("the output of a passing test is left out", "# quiet" not in lines)
    check("the failing test is named again at the end", "failed: tests/x/t.t" in lines)


def time_out():
    with tempfile.TemporaryDirectory() as folder:
        pids = os.path.join(folder, "pids")
        body = f"echo 1..1\necho '# begun'\nsleep 100 &\necho $! > '{pids}'\nwait"
        start = time.monotonic()
        code, output = run({"t": body}, limit=1)
        with open(pids, encoding="utf-8") as file:
            pid = int(file.read())
    check("a test past its time fails", code == 1 and "time-out after 1 s" in output, output)
    check("what it had printed is shown", "# begun" in output, output)
    check("its children are killed with it", gone(pid))
    check("the runner does not wait for them", time.monotonic() - start < 30)


def left_behind():
    with tempfile.TemporaryDirectory() as folder:
        pids = os.path.join(folder, "pids")
        start = time.monotonic()
        code, _ = run({"t": f"sleep 100 &\necho $! > '{pids}'\necho 1..1; echo ok 1 - a"})
        with open(pids, encoding="utf-8") as file:
            pid = int(file.read())
    check("a process left behind is killed and holds nobody up",
          code == 0 and gone(pid) and time.monotonic() - start < 30)


def interrupted():
    with tempfile.TemporaryDirectory() as root:
        pids = os.path.join(root, "pids")
        make_tree(root, {"t": f"sleep 100 &\necho $! > '{pids}.new'; mv '{pids}.new' '{pids}'\nwait"})
        runner = subprocess.Popen([sys.executable, os.path.join(root, "tests", "run.py")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(500):
            if os.path.exists(pids):
                break
            time.sleep(0.02)
        runner.send_signal(signal.SIGINT)
        output = runner.communicate(timeout=30)[0].decode()
        with open(pids, encoding="utf-8") as file:
            pid = int(file.read())
        check("an interrupt stops the runner and its tests", runner.returncode == 130 and gone(pid), output)


def order():
    with tempfile.TemporaryDirectory() as root:
        tap = "; echo 1..1; echo ok 1 - a"
        make_tree(root, {"a": "sleep 0.05" + tap, "b": "sleep 0.4" + tap, "c": "sleep 0.2" + tap})
        path = os.path.join(root, "tests", "run.py")
        subprocess.run([sys.executable, path], stdout=subprocess.DEVNULL, timeout=60)
        spec = importlib.util.spec_from_file_location("run_copy", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tests = module.find_tests()
        got = [t[-3] for t in module.longest_first(tests + ["tests/x/d.t"], module.read_times())]
    check("new tests start first, then the longest of the last run", got == list("dbca"), str(got))


def words():
    code, output = run({"one": "echo 1..1; echo ok 1", "two": "echo 1..1; echo not ok 1"}, words=["one"])
    check("words pick tests by path", (code, last(output)) == (0, "1 passed, 0 failed, 0 skipped"), output)
    code, output = run({"one": "echo 1..1; echo ok 1"}, words=["nothing"])
    check("a word that picks nothing fails", code == 1 and "no test found" in output, output)


wrong_results()
whole_output()
time_out()
left_behind()
interrupted()
order()
words()
print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
