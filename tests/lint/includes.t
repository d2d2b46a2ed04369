#!/usr/bin/env python3
"""Who may include whom (the arrows of README's layout table)."""
import os
import re
import sys

ALLOWED = {
    "base": {"base"},
    "target": {"target", "base"},
    "compile": {"compile", "cache", "target", "base"},
    "cache": {"cache", "base"},
    "image": {"image", "base", "runtime/kpk_format.h"},
    "runtime": {"runtime"},
    "ops": {"ops", "runtime"},
    "cli": {"cli", "base", "target", "compile", "cache", "image", "runtime"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def bad_includes(folder, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name in INCLUDE.findall(text):
        # runtime/ is self-contained: its files include one another by bare name.
        full = name if "/" in name else f"{folder}/{name}"
        if full.split("/")[0] not in ALLOWED[folder] and full not in ALLOWED[folder]:
            yield name
        elif folder == "runtime" and "/" in name:
            yield name


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "src"
    results = []
    for folder in sorted(os.listdir(root)):
        if not os.path.isdir(os.path.join(root, folder)):
            continue
        faults = []
        if folder not in ALLOWED:
            faults.append(f"{root}/{folder}: a folder that the layout does not know")
        else:
            for where, _, names in os.walk(os.path.join(root, folder)):
                if os.path.basename(where) == "headers":
                    continue  # CUDA-side headers that are embedded, not compiled here
                for name in names:
                    path = os.path.join(where, name)
                    if name.endswith((".c", ".h")):
                        faults += [f"{path} includes {x}" for x in bad_includes(folder, path)]
        results.append((folder, faults))
    print(f"1..{len(results)}")
    for number, (folder, faults) in enumerate(results, 1):
        for fault in faults:
            print(f"# {fault}")
        print(f"{'not ok' if faults else 'ok'} {number} - includes of {folder}")
    return any(faults for _, faults in results)


if __name__ == "__main__":
    sys.exit(main())
