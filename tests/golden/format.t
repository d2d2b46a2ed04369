#!/usr/bin/env python3
"""FORMAT.md against kpk_format.h, and the golden image against a reader written from FORMAT.md alone."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import read_kpk

FORMAT = os.path.join(ROOT, "src/runtime/FORMAT.md")
GOLDEN = os.path.join(HERE, "v1.kpk")
BUNDLE = os.path.join(HERE, "v1-bundle.kpk")
TABLE = re.compile(r"^<!-- fields of (\w+) -->\n\|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)
SECTION_ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+) \| ", re.M)


def tables(text):
    """{struct: [(offset, size, type, field)]}"""
    found = {}
    for name, body in TABLE.findall(text):
        rows = [[cell.strip() for cell in row.split("|")[1:5]] for row in body.splitlines()]
        found[name] = [(int(o), int(s), kind, field) for o, s, kind, field in rows]
    return found


def size_of(kind):
    base, count = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", kind).groups()
    sizes = {"u8": 1, "u32": 4, "u64": 8, "i64": 8, "string": 8, "section": 24, "prefix": 24}
    return sizes[base] * int(count or 1)


def compiled(structs):
    """What the compiler says of the same fields: {(struct, field): (offset, size)} and struct sizes."""
    lines = ['#include <stdio.h>', '#include "runtime/kpk_format.h"', "int main(void) {"]
    for name, rows in structs.items():
        lines.append(f'printf("{name} . 0 %zu\\n", sizeof(struct {name}));')
        for _, _, _, field in rows:
            lines.append(f'printf("{name} {field} %zu %zu\\n", offsetof(struct {name}, {field}),'
                         f" sizeof(((struct {name} *)0)->{field}));")
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "offsets")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I", os.path.join(ROOT, "src"), "-x",
                        "c", "-", "-o", program], input="\n".join(lines), text=True, check=True)
        output = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    split = [line.split() for line in output.splitlines()]
    return {(struct, field): (int(offset), int(size)) for struct, field, offset, size in split}


def check_tables():
    with open(FORMAT, encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(ROOT, "src/runtime/kpk_format.h"), encoding="utf-8") as file:
        declared = set(re.findall(r"^struct (\w+) \{", file.read(), re.M))
    structs = tables(text)
    assert set(structs) == declared, f"tables of {set(structs) ^ declared} are missing or extra"
    facts = compiled(structs)
    for name, rows in structs.items():
        end = 0
        for offset, size, kind, field in rows:
            assert (offset, size) == facts[name, field], f"{name}.{field} is at {facts[name, field]}"
            assert size == size_of(kind), f"{name}.{field} is no {kind}"
            assert offset == end, f"{name} has a hole before {field}"
            end = offset + size
        assert end == facts[name, "."][1], f"{name} has {facts[name, '.'][1]} bytes"
    sections = {name: int(stride) for _, name, stride in SECTION_ROW.findall(text)}
    assert tuple(sections) == read_kpk.SECTIONS and tuple(sections.values()) == read_kpk.STRIDES


def check_example():
    with open(FORMAT, encoding="utf-8") as file:
        text = " ".join(file.read().split())
    seed = read_kpk.xxh3_64(b"alpha")
    value = read_kpk.xxh3_64(b"scale", seed)
    example = (f'XXH3-64("alpha") = 0x{seed:016x}, XXH3-64("scale") with that seed = 0x{value:016x}, '
               f"so the probe starts at slot {value & 7} and the tag is 0x{value >> 32:08x}.")
    assert example in text, example


def golden(path=GOLDEN):
    with open(path, "rb") as file:
        return file.read()


def check_facts():
    with open(os.path.join(HERE, "v1.json"), encoding="utf-8") as file:
        expected = json.load(file)
    assert json.loads(json.dumps(read_kpk.open_file(golden()).facts())) == expected


def check_bundle():
    """One part is the golden image; the other says the same of another target."""
    bundle = read_kpk.open_file(golden(BUNDLE))
    (other, start, _), (own, own_start, _) = bundle.parts
    assert (other, start % 4096, own_start % 4096) == ("other", 0, 0)
    assert golden(BUNDLE)[own_start:] == golden()
    facts = bundle.facts()
    target = facts[other].pop("target"), facts[own].pop("target")
    assert facts[other] == facts[own]
    assert [(t["arch"], t["compute"]) for t in target] == [("sm_121a", [12, 1]), ("sm_90a", [9, 0])]


def refused(data):
    try:
        read_kpk.open_file(data).facts()
    except read_kpk.Damaged:
        return True
    return False


def check_damage():
    data = golden()
    places = [*range(0, 384, 23), *range(384, len(data), 311), len(data) - 1]
    for at in places:
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]
        assert refused(flipped), f"byte {at} flipped, and nothing said"
    for size in (0, 7, 23, 24, 383, 384, len(data) - 1):
        assert refused(data[:size]), f"cut to {size} bytes, and nothing said"
    assert refused(data + b"\0")


def check_bundle_damage():
    data = golden(BUNDLE)
    parts = [start for _, start in read_kpk.open_parts(data)]
    places = [*range(0, 600, 13), *(p + d for p in parts for d in (-1, 0, 100, 400)), len(data) - 1]
    for at in places:
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]
        assert refused(flipped), f"byte {at} flipped, and nothing said"
    for size in (0, 24, 384, 500, *parts, len(data) - 1):
        assert refused(data[:size]), f"cut to {size} bytes, and nothing said"
    assert refused(data + b"\0")


def main():
    checks = [("FORMAT.md's tables are those of kpk_format.h", check_tables, "cc"),
              ("FORMAT.md's worked example holds", check_example, None),
              ("the golden image says what it always said", check_facts, "zstd"),
              ("a flipped, cut or longer golden image is refused", check_damage, "zstd"),
              ("the golden bundle's parts are the golden image and its like", check_bundle, "zstd"),
              ("a flipped, cut or longer golden bundle is refused", check_bundle_damage, "zstd")]
    print(f"1..{len(checks)}")
    failed = False
    for number, (name, check, tool) in enumerate(checks, 1):
        if tool and not shutil.which(tool):
            print(f"ok {number} - {name} # SKIP no {tool} command")
            continue
        try:
            check()
            print(f"ok {number} - {name}")
        except Exception as fault:
            failed = True
            print(f"not ok {number} - {name}")
            print(f"# {type(fault).__name__}: {fault}".replace("\n", "\n# "))
    return failed


if __name__ == "__main__":
    sys.exit(main())
