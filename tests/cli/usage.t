#!/usr/bin/env python3
"""Help, version and mistakes on the command line."""
import subprocess

from harness import Folder, binary, check, golden, kpack, main, same, test, write

HELP = [(), ("build",), ("list",), ("show",), ("verify",), ("diff",), ("coverage",), ("audit",), ("lookups",), 
        ("size",), ("report",), ("bundle",), ("extract",), ("embed",), ("header",), ("explain",), ("cache",), ("doctor",), ("help",)]
MISTAKES = {
    "nothing": [],
    "command": ["bild"],
    "command-far": ["frobnicate"],
    "command-lua": ["biuld", "a.lua"],
    "help-command": ["help", "lst"],
    "help-words": ["help", "list", "show"],
    "option": ["build", "--progrss=plain", "a.lua"],
    "option-far": ["list", "--frobnicate", "a.kpk"],
    "option-first": ["--stmp", "a.lua"],
    "letter": ["build", "-Z", "a.lua"],
    "letters": ["build", "-kZ", "a.lua"],
    "option-other": ["list", "-k", "a.kpk"],
    "no-value": ["a.lua", "-o"],
    "no-value-long": ["a.lua", "--out"],
    "empty-value": ["-o", "", "a.lua"],
    "stdout": ["report", "-o", "-", "a.kpk"],
    "empty-value-long": ["--out=", "a.lua"],
    "value": ["list", "--json=1", "a.kpk"],
    "value-help": ["list", "--help=1", "a.kpk"],
    "no-target": ["build", "-k"],
    "no-image": ["list"],
    "empty-word": ["list", ""],
    "empty-second": ["diff", "a.kpk", ""],
    "two-images": ["list", "a.kpk", "b.kpk"],
    "show-image": ["show", "a.kpk"],
    "show-words": ["show", "a.kpk", "m", "n"],
    "verify-rebuild": ["verify", "--rebuild"],
    "diff-one": ["diff", "a.kpk"],
    "lookups-source": ["lookups"],
    "report-file": ["report", "a.kpk"],
    "report-image": ["report", "-o", "a.html"],
    "report-json": ["report", "--json", "-o", "a.html", "a.kpk"],
    "bundle-file": ["bundle", "a.kpk"],
    "bundle-image": ["bundle", "-o", "a.kpk"],
    "extract-module": ["extract", "a.kpk"],
    "extract-words": ["extract", "a.kpk", "b.kpk", "m"],
    "extract-fatbin": ["extract", "--fatbin", "a.kpk"],
    "extract-cuda": ["extract", "--cuda=/usr", "a.kpk", "m"],
    "embed-file": ["embed", "a.kpk"],
    "embed-machine": ["embed", "-o", "a.o", "--machine=riscv64", "a.kpk"],
    "doctor-words": ["doctor", "who"],
    "jobs-zero": ["-j0", "a.lua"],
    "jobs-word": ["-j", "many", "a.lua"],
    "jobs-tail": ["-j", "4x", "a.lua"],
    "jobs-negative": ["-j", "-4", "a.lua"],
    "jobs-huge": ["-j", "99999999999999999999", "a.lua"],
    "timeout": ["--unit-timeout=0.5", "a.lua"],
    "progress": ["--progress=fancy", "a.lua"],
    "output-two": ["-o", "x.kpk", "a.lua", "b.lua"],
    "output-out": ["-o", "x.kpk", "--out", "y", "a.lua"],
    "control": ["b\033[31mild"],
}


@test("help is as expected, by word and by option")
def _():
    for words in HELP:
        name = "-".join(("help",) + words)
        golden(f"{name}.txt", kpack("help", *words))
        golden(f"{name}.txt", kpack(*words, "--help"))
        golden(f"{name}.txt", kpack(*words, "-h"))


@test("help fits 90 columns")
def _():
    for words in HELP:
        for line in kpack("help", *words).out.splitlines():
            check(len(line) <= 90, line)


@test("--version prints one line")
def _():
    result = kpack("--version")
    same((result.status, result.err), (0, ""))
    check(result.out.startswith("kpack ") and result.out.count("\n") == 1, result)


@test("every mistake says what, and ends with status 2")
def _():
    for name, args in MISTAKES.items():
        result = kpack(*args)
        same((result.status, result.out), (2, ""), name, result)
        golden(f"usage-{name}.txt", result)


@test("a target named without its ending is told as such")
def _():
    with Folder() as folder:
        write(f"{folder}/size_.lua", "")
        result = kpack("size_", cwd=folder)
        same(result.status, 2, result)
        check("unknown command 'size_' (did you mean 'size_.lua'?)" in result.err, result)


@test("KPACK_MEM that is no size is a usage error")
def _():
    for text in ("lots", "8Q", "8GB", "G", "-1", "99999999999999999999", "99999999999T"):
        result = kpack("a.lua", env={"KPACK_MEM": text})
        same(result.status, 2, text, result)
        check(f"KPACK_MEM is '{text}', expected a size such as 8G" in result.err, result)


@test("a full disk behind standard output is an error")
def _():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([binary(), "help"], stdout=full, stderr=subprocess.PIPE, check=False)
    same(done.returncode, 1)
    check(b"cannot write to standard output: No space left on device" in done.stderr, done.stderr)


main()
