#!/usr/bin/env python3
"""Formatting, scripts, the description language, spelling and the man page, each by its own linter."""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
count = 0
failed = False


def lint(name, tool, arguments, files, wanted=True):
    global count, failed
    count += 1
    if not shutil.which(tool):
        print(f"ok {count} - {name} # SKIP {tool} is not installed (.ci/setup test installs it)")
        return
    if not files:
        failed = failed or wanted
        print(f"{'not ok' if wanted else 'ok'} {count} - {name}: no file")
        return
    done = subprocess.run([tool, *arguments, *files], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
    bad = done.returncode != 0
    failed = failed or bad
    print(f"{'not ok' if bad else 'ok'} {count} - {name} ({len(files)} files)")
    if bad:
        for line in done.stdout.decode("utf-8", "replace").splitlines()[:100]:
            print("# " + line)


def all_files():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in (".git", "out", "shared", "__pycache__"))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def shebang(path):
    try:
        with open(os.path.join(ROOT, path), "rb") as file:
            return file.readline(64)
    except OSError:
        return b""


def main():
    files = list(all_files())
    c_files = [f for f in files if f.startswith(("src/", "tests/")) and f.endswith((".c", ".h", ".cpp"))]
    lint("src/ and tests/ are formatted", "clang-format-14", ["--dry-run", "-Werror", "--style=file"], c_files)
    lint("shell scripts", "shellcheck", [], [f for f in files if shebang(f) in (b"#!/bin/sh\n", b"#!/bin/bash\n")])
    # Bad descriptions are fixtures of tests.
    lua = [f for f in files if f.endswith(".lua") and f.startswith(("lua/", "targets/"))]
    lint("Lua", "luacheck", ["--std", "lua54", "--no-color", "-q", "--max-line-length", "150"], lua)
    prose = [f for f in files if f.endswith((".md", ".c", ".h", ".cu", ".cuh", ".lua", ".py", ".t", ".1", ".sh", ".css", ".js"))]
    lint("spelling", "codespell", ["--ignore-words-list", "alph,fo,te,nd,ot,ue,inout,ans,wth,dout"], prose)
    lint("the man page", "mandoc", ["-T", "lint", "-W", "warning"], [f for f in files if f.endswith(".1")])
    scripts = [f for f in files if f.endswith(".py") or shebang(f).startswith(b"#!/usr/bin/env python3")]
    check_python = "import ast, sys\nfor p in sys.argv[1:]: ast.parse(open(p, encoding='utf-8').read(), p)"
    lint("Python parses", "python3", ["-c", check_python], scripts)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
