#!/usr/bin/env python3
"""The corpus of real kernels: what kpack makes of it has the entry points that nvcc gives it."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import corpus  # noqa: E402

KPACK = os.path.join(HERE, "..", "..", "out", "bin", "kpack")
FRESH = ("axpy", "launch_parameters", "templates", "wmma_half")  # compiled anew where there is an nvcc


def kpack(*args):
    return subprocess.run([KPACK, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def build():
    """The symbols in kpack's image, module by module; else what kpack said."""
    with tempfile.TemporaryDirectory() as folder:
        image = os.path.join(folder, "corpus.kpk")
        done = kpack(os.path.join(HERE, "corpus.lua"), "-o", image, "-k", "-j2", "--no-cache")
        if done.returncode:
            return None, done.stdout.decode("utf-8", "replace")
        modules = json.loads(kpack("list", "--json", image).stdout)["modules"]
    return {m["name"]: {e["symbol"]: e["name"] for e in m["entries"]} for m in modules}, ""


def report(number, ok, name, *details):
    for detail in details:
        print("\n".join(f"# {line}" for line in str(detail).splitlines()))
    print(f"{'ok' if ok else 'not ok'} {number} - {name}", flush=True)
    return ok


def differences(found, expected):
    return [f"{name}: kpack {sorted(found.get(name, []))}, nvcc {expected.get(name)}"
            for name in sorted(set(found) | set(expected))
            if sorted(found.get(name, [])) != expected.get(name)]


def main():
    if kpack("doctor").returncode:
        print("1..0 # SKIP no NVRTC on this machine")
        return True
    print("1..4")
    found, said = build()
    ok = report(1, found is not None, "every kernel of the corpus compiles", said)
    found = found or {}
    with open(corpus.RECORD, encoding="utf-8") as file:
        recorded = json.load(file)["kernels"]
    wrong = differences(found, recorded)
    ok &= report(2, len(found) >= 40 and not wrong, f"{len(found)} sources have the entries nvcc gives them", *wrong)
    asked = {name: entry for name in corpus.expressions() for entry, _ in corpus.expressions()[name]}
    shipped = {name: sorted(found.get(name, {}).values()) for name in asked}
    wanted = {name: sorted(e for e, _ in corpus.expressions()[name]) for name in asked}
    ok &= report(3, shipped == wanted, "instances of templates ship under the names given", shipped)
    nvcc = corpus.find_nvcc()
    name = f"nvcc still gives {', '.join(FRESH)} the recorded entries"
    if not nvcc:
        print(f"ok 4 - {name} # SKIP no nvcc on this machine")
        return ok
    now = {source: corpus.with_nvcc(nvcc, source) for source in FRESH}
    wrong = differences({s: recorded[s] for s in FRESH}, now)
    return report(4, not wrong, name, *wrong) and ok


sys.exit(not main())
