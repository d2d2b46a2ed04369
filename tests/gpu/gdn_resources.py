#!/usr/bin/env python3
"""What each GDN entry takes on each target, as a table of RESULTS.md: gdn_resources.py KPACK [RUNS]

Compiles the targets anew on one worker, RUNS times (1); a unit's seconds are the fewest, whichever entries it has.
Exits 1 when an entry spills or a unit takes more than 20 s.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = ("hopper", "gb10")
SECONDS = 20


def compile_target(kpack, target, folder):
    """The image's modules, and seconds by module."""
    trace = os.path.join(folder, target + ".trace")
    subprocess.run([kpack, os.path.join(ROOT, "targets", target + ".lua"), "--out", folder, "--no-cache", "-j1",
                    "--timings=" + trace], check=True, stdout=subprocess.DEVNULL)
    listing = subprocess.run([kpack, "list", "--json", os.path.join(folder, target + ".kpk")], check=True,
                             stdout=subprocess.PIPE).stdout
    image = json.loads(listing)
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    seconds = {event["name"].split("/")[1]: event["args"]["seconds"] for event in events if event["ph"] == "X"}
    modules = [module for module in image["modules"] if module["name"].startswith(("gdn_", "gated_delta_rule_"))]
    return image["arch"], modules, seconds


def measure(kpack, runs):
    """{(module, entry): {arch: cells}}, the archs, and what is over its limit."""
    rows, archs, faults = {}, [], []
    for target in TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            found = [compile_target(kpack, target, folder) for _ in range(runs)]
        arch, modules, _ = found[0]
        archs.append(arch)
        for module in modules:
            least = min(seconds[module["name"]] for _, _, seconds in found)
            if least > SECONDS:
                faults.append(f"{module['name']} takes {least:.1f} s on {arch}")
            for entry in module["entries"]:
                if entry["spill_bytes"]:
                    faults.append(f"{entry['name']} spills {entry['spill_bytes']} bytes on {arch}")
                rows.setdefault((module["name"], entry["name"]), {})[arch] = entry, least
    return rows, archs, faults


def cells_of(entry, seconds):
    return [str(entry[name]) for name in ("registers", "spill_bytes", "stack_bytes", "static_smem")] + [f"{seconds:.2f}"]


def main():
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows, archs, faults = measure(sys.argv[1], runs)
    names = ("registers", "spilled B", "stack B", "static B", "unit s")
    print("| unit | entry | block | dynamic B | " + " | ".join(f"{name}, {' / '.join(archs)}" for name in names) + " |")
    print("|" + "---|" * (4 + len(names)))
    for (module, name), by_arch in rows.items():
        entry = next(iter(by_arch.values()))[0]
        columns = [cells_of(*by_arch[arch]) if arch in by_arch else ["-"] * len(names) for arch in archs]
        cells = [" / ".join(column) for column in zip(*columns)]
        print(f"| {module} | {name.removeprefix('gated_delta_rule_')} | {entry['block'][0]} | {entry['dynamic_smem']} | "
              + " | ".join(cells) + " |")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
