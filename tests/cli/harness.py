"""What the tests of the command line share: running kpack, golden files, TAP.

A test file defines functions, marks them with @test("what holds"), and ends with main(). A golden file
holds a command's standard output, standard error and exit status; UPDATE_GOLDEN=1 writes it anew.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "cli", "golden")
OUT = os.environ.get("KPACK_TEST_OUT")  # one build alone, such as out/cov
KPACK = os.path.join(ROOT, OUT or "out", "bin", "kpack")
SANITIZED = os.path.join(ROOT, "out", "san", "bin", "kpack")
UNSET = ("CUDA_HOME", "CUDA_PATH", "KPACK_MEM", "MAKEFLAGS", "NO_COLOR", "TERM", "COLUMNS")

_tests = []
_cache = ""  # a folder of the running test's own


class Skip(Exception):
    """What the test needs is not on this machine."""


def test(name):
    def add(function):
        _tests.append((name, function))
        return function
    return add


def environment(extra=None):
    env = {k: v for k, v in os.environ.items() if k not in UNSET}
    env.update(LC_ALL="C.UTF-8", TERM="dumb", KPACK_CACHE=_cache)
    env.update(extra or {})
    return env


def cache_folder():
    """Where the running test's builds keep what they compiled."""
    return _cache


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return f"status {self.status}\n--- out\n{self.out}--- err\n{self.err}"


def binary():
    """The kpack under test."""
    return KPACK


def kpack(*args, cwd=ROOT, env=None, **more):
    done = subprocess.run([binary(), *args], cwd=cwd, env=environment(env), timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **more)
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"),
                  done.stderr.decode("utf-8", "replace"))


def unprivileged():
    """Arguments for kpack() that run it as a user whom file permissions bind."""
    if os.geteuid() != 0:
        return {}
    who = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        if kpack("--version", **who).status == 0:
            return who
    except OSError:
        pass
    raise Skip("another user cannot run this kpack, and root is not bound by permissions")


def check(condition, *said):
    if not condition:
        raise AssertionError("\n".join(str(x) for x in said) or "a condition does not hold")


def same(found, expected, *said):
    check(found == expected, *said, f"found    {found!r}", f"expected {expected!r}")


def golden(name, result, replace=()):
    """Compares a result with golden/NAME; `replace` holds (regex, text) pairs for what may vary."""
    text = f"{result.out}--- stderr\n{result.err}--- status {result.status}\n"
    for pattern, new in replace:
        text = re.sub(pattern, new, text)
    path = os.path.join(GOLDEN, name)
    if os.environ.get("UPDATE_GOLDEN") and binary() != SANITIZED:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    check(text == expected, f"differs from golden/{name}:", text, "expected:", expected)


class Folder:
    """A scratch folder; `with Folder() as path`."""

    def __init__(self, name="kpack"):
        self.name = name

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="kpack-test-")
        os.chmod(self.top, 0o755)
        path = os.path.join(self.top, self.name)
        os.mkdir(path)
        return path

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def run_tests(binary, words, first):
    """Runs the tests against one binary; returns (how many ran, whether one failed)."""
    global KPACK, _cache
    KPACK = binary
    suffix = " (sanitized)" if binary == SANITIZED else ""
    failed = False
    chosen = [t for t in _tests if not words or any(w in t[0] for w in words)]
    for number, (name, function) in enumerate(chosen, first):
        _cache = tempfile.mkdtemp(prefix="kpack-cache-")
        os.chmod(_cache, 0o777)
        try:
            function()
            print(f"ok {number} - {name}{suffix}")
        except Skip as reason:
            print(f"ok {number} - {name}{suffix} # SKIP {reason}")
        except Exception as error:  # whatever went wrong, this test failed
            failed = True
            for line in f"{type(error).__name__}: {error}".splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {name}{suffix}")
        shutil.rmtree(_cache, ignore_errors=True)
        sys.stdout.flush()
    return len(chosen), failed


def main():
    """Runs every test with the tool as built, and with the sanitized one when it is there."""
    words = sys.argv[1:]
    count, failed = run_tests(KPACK, words, 1)
    if not OUT and os.path.exists(SANITIZED):
        more, more_failed = run_tests(SANITIZED, words, count + 1)
        count, failed = count + more, failed or more_failed
    print(f"1..{count}")
    sys.exit(failed)
