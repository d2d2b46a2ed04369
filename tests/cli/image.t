#!/usr/bin/env python3
"""list, show and verify on images made here, good and bad."""
import json
import os
import struct
import subprocess
import sys

from harness import ROOT, Folder, binary, check, golden, kpack, main, read, same, test, unprivileged, write

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
from read_kpk import digest  # noqa: E402

SAMPLE = os.path.join(ROOT, "out", "tests", "sample_image")
CUBIN = os.path.join(ROOT, "tests", "golden", "cubins", "nvrtc130-sm_90a.cubin")
IMAGE_FIELDS = ["format", "target", "arch", "compute", "nvrtc", "min_driver", "raw_bytes", "file_bytes",
                "levers", "expected_absent", "groups", "modules"]
MODULE_FIELDS = ["name", "source", "constants", "flags", "entries"]
ENTRY_FIELDS = ["name", "symbol", "block", "dynamic_smem", "static_smem", "registers", "spill_bytes",
                "stack_bytes", "code_bytes", "twin_of", "bits"]

# What varies with zstd and with how the writer groups.
PACKED = [(r"in \d+ groups?,", "in N groups,"), (r"[\d.]+ KiB on disk", "N on disk"), (r"number \d+, in group \d+ \(.* packed to .*\)", "number N, in group N")]
SIZES = [(r"has 3[34]\d\d bytes", "has N bytes"), (r"says 3[34]\d\d", "says M")]


def make(folder, kind):
    path = os.path.join(folder, f"{kind}.kpk")
    subprocess.run([SAMPLE, kind, path, CUBIN], check=True)
    return path


def run(folder, *args):
    return kpack(*args, cwd=folder)


@test("list prints tables that fit 120 columns and cannot drive a terminal")
def _():
    with Folder() as folder:
        for kind in ("sample", "hostile", "bare", "real"):
            make(folder, kind)
            result = run(folder, "list", f"{kind}.kpk")
            golden(f"list-{kind}.txt", result, PACKED)
            for line in result.out.splitlines():
                check(len(line) <= 120, len(line), line)
                check(line.isprintable(), repr(line))


@test("show prints modules and entries")
def _():
    with Folder() as folder:
        make(folder, "sample")
        for name, word in (("alpha", "alpha"), ("beta", "beta"), ("gamma", "gamma"),
                           ("entry", "alpha:scale"), ("entry-bare", "alpha:add"),
                           ("entry-twin", "beta:scale_x2")):
            golden(f"show-{name}.txt", run(folder, "show", "sample.kpk", word), PACKED)


@test("show names the nearest module and entry")
def _():
    with Folder() as folder:
        make(folder, "sample")
        for name, word in (("module", "alhpa"), ("module-far", "zzz"), ("entry", "alpha:sclae"),
                           ("entry-far", "alpha:zzzzzz"), ("empty", "alpha:")):
            golden(f"show-no-{name}.txt", run(folder, "show", "sample.kpk", word))


@test("the JSON of list has exactly the promised fields, in order")
def _():
    with Folder() as folder:
        for kind in ("sample", "hostile", "bare", "real"):
            image = json.loads(run(folder, "list", "--json", make(folder, kind)).out)
            same(list(image), IMAGE_FIELDS, kind)
            for lever in image["levers"]:
                same(list(lever), ["name", "env", "kind", "default"])
            for absent in image["expected_absent"]:
                same(list(absent), ["module", "entry", "reason"])
            for group in image["groups"]:
                same(list(group), ["raw_bytes", "packed_bytes", "modules"])
            for module in image["modules"]:
                same(list(module), MODULE_FIELDS)
                for entry in module["entries"]:
                    same(list(entry), ENTRY_FIELDS)


@test("the JSON of list says what the image holds")
def _():
    with Folder() as folder:
        path = make(folder, "sample")
        image = json.loads(run(folder, "list", path, "--json").out)
        same([image[k] for k in IMAGE_FIELDS[:6]], [1, "sample", "sm_90a", "9.0", "13.0", 13000])
        same((image["raw_bytes"], image["file_bytes"]), (7500, os.path.getsize(path)))
        same(image["levers"], [
            {"name": "exact", "env": "SAMPLE_EXACT", "kind": "is1", "default": False},
            {"name": "fast", "env": "SAMPLE_FAST", "kind": "switch", "default": True},
            {"name": "mode", "env": "SAMPLE_MODE", "kind": "text", "default": "auto"},
            {"name": "trace", "env": "SAMPLE_TRACE", "kind": "presence", "default": False}])
        same(image["expected_absent"], [
            {"module": "alpha", "entry": "mul", "reason": ""},
            {"module": "delta", "entry": "mul", "reason": "needs tensor memory"}])
        same([m["name"] for m in image["modules"]], ["alpha", "beta", "gamma"])
        alpha, beta, gamma = image["modules"]
        same(alpha["source"], "kernels/base/alpha.cu")
        same(alpha["constants"], {"BIAS": -5, "TILE_M": 128, "WIDE": -2**63})
        same(alpha["flags"], ["--fmad=false", "-lineinfo"])
        same(alpha["entries"], [
            {"name": "add", "symbol": "add", "block": None, "dynamic_smem": None, "static_smem": 0,
             "registers": 12, "spill_bytes": None, "stack_bytes": 0, "code_bytes": 512,
             "twin_of": None, "bits": None},
            {"name": "scale", "symbol": "scale", "block": [256, 2, 1], "dynamic_smem": 49152, "static_smem": 1040,
             "registers": 128, "spill_bytes": 24, "stack_bytes": 16, "code_bytes": 2048,
             "twin_of": None, "bits": None}])
        same([(e["twin_of"], e["bits"], e["spill_bytes"]) for e in beta["entries"]],
             [(None, None, None), ("alpha:scale", "close", None), ("beta:add", "same", 0)])
        same((gamma["entries"], gamma["constants"], gamma["flags"]), ([], {}, []))
        groups = image["groups"]
        same(sum(g["raw_bytes"] for g in groups), image["raw_bytes"])
        check(all(0 < g["packed_bytes"] < image["file_bytes"] for g in groups), groups)
        same(sorted({m for g in groups for m in g["modules"]}), ["alpha", "beta", "gamma"])


@test("JSON is UTF-8 whatever bytes an image's names have")
def _():
    with Folder() as folder:
        path = make(folder, "sample")
        image = bytearray(read(path))
        end = sum(struct.unpack_from("<QQ", image, 32))  # of the index
        for old, new in ((b"TILE_M\0", b"TILE_\xff\0"), (b"alpha.cu\0", b"\xfflpha.cu\0")):
            image[384:end] = image[384:end].replace(old, new)
        image[48:64] = digest(bytes(image[384:end]))
        image[368:384] = digest(bytes(image[:368]))
        write(path, bytes(image))
        alpha = json.loads(run(folder, "list", path, "--json").out)["modules"][0]
        same(alpha["constants"], {"BIAS": -5, "TILE_\\xFF": 128, "WIDE": -2**63})
        same(alpha["source"], "kernels/base/\\xFFlpha.cu")
        result = run(folder, "verify", path)
        same(result.status, 1, result)
        check("of its strings is not UTF-8" in result.err, result)


@test("the JSON of show is that of list")
def _():
    with Folder() as folder:
        path = make(folder, "sample")
        image = json.loads(run(folder, "list", "--json", path).out)
        for module in image["modules"]:
            same(json.loads(run(folder, "show", path, module["name"], "--json").out), module)
            for entry in module["entries"]:
                word = f"{module['name']}:{entry['name']}"
                same(json.loads(run(folder, "show", "--json", path, word).out), entry)


@test("list and show need neither CUDA nor a driver")
def _():
    with Folder() as folder:
        path = make(folder, "sample")
        for words in (("list", path), ("show", path, "alpha")):
            done = subprocess.run([binary(), *words], env={"LD_DEBUG": "files"}, cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            check(b"libzstd" not in done.stderr and b"libc.so" in done.stderr)
            check(b"nvrtc" not in done.stderr and b"libcuda" not in done.stderr)


@test("verify accepts what the cubins say, and names each figure that differs")
def _():
    with Folder() as folder:
        for kind in ("real", "wrong", "sample"):
            make(folder, kind)
            golden(f"verify-{kind}.txt", run(folder, "verify", f"{kind}.kpk"))


def bad_images(folder):
    good = read(make(folder, "real"))
    newer = bytearray(good)
    newer[8:12] = struct.pack("<I", 2)
    flipped = bytearray(good)
    flipped[400] ^= 1
    tail = bytearray(good)
    tail[-5] ^= 0x40
    write(f"{folder}/empty.kpk", b"")
    write(f"{folder}/short.kpk", good[:10])
    write(f"{folder}/truncated.kpk", good[:-1])
    write(f"{folder}/header-only.kpk", good[:384])
    write(f"{folder}/longer.kpk", good + b"\0")
    write(f"{folder}/flipped.kpk", flipped)
    write(f"{folder}/flipped-tail.kpk", tail)
    write(f"{folder}/newer.kpk", newer)
    write(f"{folder}/foreign.kpk", read(CUBIN))
    write(f"{folder}/text.kpk", good.replace(b"\r\n", b"\n", 1))
    os.mkdir(f"{folder}/folder.kpk")
    os.mkfifo(f"{folder}/fifo.kpk")
    return ["empty", "short", "truncated", "header-only", "longer", "flipped", "newer", "foreign",
            "text", "folder", "fifo", "missing"]


@test("images that cannot be read: what was found, what was expected, what to do")
def _():
    with Folder() as folder:
        for name in bad_images(folder):
            result = run(folder, "list", f"{name}.kpk")
            same((result.status, result.out), (1, ""), name)
            golden(f"bad-{name}.txt", result, SIZES)
            for words in (("show", f"{name}.kpk", "resources"), ("verify", f"{name}.kpk")):
                same(run(folder, *words).err, result.err, words)


@test("verify finds a flipped bit that list need not read")
def _():
    with Folder() as folder:
        bad_images(folder)
        same(run(folder, "list", "flipped-tail.kpk").status, 0)
        golden("verify-flipped-tail.txt", run(folder, "verify", "flipped-tail.kpk"))


@test("verify finds every flipped bit and every truncation, tried at 120 places")
def _():
    with Folder() as folder:
        good = read(make(folder, "real"))
        path = f"{folder}/bad.kpk"
        for at in range(0, len(good), len(good) // 60):
            for bad in (good[:at], good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1:]):
                write(path, bad)
                result = run(folder, "verify", "bad.kpk")
                same((result.status, result.out), (1, ""), at)
                check(result.err.startswith("kpack: error: "), at, result)


@test("an unreadable image is an error that says so")
def _():
    with Folder() as folder:
        path = make(folder, "sample")
        os.chmod(path, 0)
        result = kpack("list", "sample.kpk", cwd=folder, **unprivileged())
        same((result.status, result.out), (1, ""))
        check("sample.kpk: cannot open: Permission denied\n" in result.err, result)


@test("image names with spaces, quotes, newlines and non-ASCII")
def _():
    with Folder() as folder:
        data = read(make(folder, "sample"))
        for name in ("a b.kpk", "it's \"x\".kpk", "ü\u4e2d.kpk", "new\nline.kpk", "-list.kpk"):
            write(f"{folder}/{name}", data)
            result = run(folder, "list", "--", name)
            same((result.status, result.err), (0, ""), name)
            check(result.out.splitlines()[0].startswith(name.replace("\n", "\\x0A") + ": "), result)


main()
