#!/usr/bin/env python3
"""verify --rebuild: an image against a fresh build of its target."""
import json
import os
import shutil
import signal

from harness import Folder, check, golden, kpack, main, read, same, test, write
from images import OTHER_CUBIN, describe, patched
from project import CUBIN, FAKE, Started, World, build, module, source, target, tiny

ENTRY = 'k.entry "plain" { block = 256 }'
LEVER = 'levers = { fast = { env = "FAST", default = true } },'
SIZES = [(r"[\d.]+ KiB", "N KiB"), (r"\n  file .*", "\n  file N"), (r"  +", "  ")]


def project(folder, tile="ROWS = 64", flags="", entries=ENTRY, levers="", **more):
    tiny(folder, module("m", entries, f"tile = {{ {tile} }}, flags = {{ {flags} }},"), module("n"), more=levers, **more)


def verify(folder, *args, image="out/tiny.kpk", cuda=FAKE, env=None):
    """Runs verify --rebuild with a TMPDIR of its own, and checks that nothing stays there."""
    scratch = os.path.join(folder, "scratch")
    os.makedirs(scratch, exist_ok=True)
    result = kpack("verify", "--rebuild", "tiny.lua", image, *args, cwd=folder,
                   env={"CUDA_HOME": cuda, "TMPDIR": scratch, "KPACK_CACHE": f"{folder}/cache", **(env or {})})
    same(os.listdir(scratch), [], result)
    return result


@test("a fresh build gives the same bytes, with and without a stamp, whatever the image is called")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        before = read(f"{folder}/out/tiny.kpk")
        golden("rebuild-same.txt", verify(folder), SIZES)
        same(build(folder, "--stamp", "-o", "stamped.kpk", "tiny.lua").status, 0)
        check(read(f"{folder}/stamped.kpk") != before, "the stamp is not in the image")
        golden("rebuild-stamp.txt", verify(folder, image="stamped.kpk"), SIZES)
        write(f"{folder}/tiny.lua", read(f"{folder}/tiny.lua") + b"-- a comment\n")
        same(verify(folder, image="stamped.kpk").status, 0)
        same(read(f"{folder}/out/tiny.kpk"), before)


@test("it is a build without the cache")
def _():
    with Folder() as folder:
        world = World(folder)
        project(folder)
        same(world.build("--cache", "cache", "tiny.lua"), ["m", "n"])
        same(world.build("--cache", "cache", "tiny.lua"), [])
        write(world.count, "")
        same(verify(folder, cuda=world.cuda).status, 0)
        same(len(read(world.count).splitlines()), 2)


@test("where the bytes differ it says which module and why")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        cases = {
            "constant": {"tile": "ROWS = 128"},
            "flag": {"flags": '"--fmad=false"'},
            "code": {"commands": [f"fake cubin {patched(folder, 'p.cubin', 'plain')}"]},
            "nvcc": {"commands": [f"fake cubin {OTHER_CUBIN}"]},
            "entry": {"entries": ENTRY + ', "stack"'},
            "block": {"entries": 'k.entry "plain" { block = 128 }'},
            "lever": {"levers": LEVER},
        }
        for name, more in cases.items():
            project(folder, **more)
            result = verify(folder)
            same(result.status, 1)
            golden(f"rebuild-{name}.txt", result, SIZES)
        project(folder)
        same(verify(folder).status, 0)


@test("another NVRTC is told first")
def _():
    with Folder() as folder:
        world = World(folder)
        project(folder)
        world.build("tiny.lua")
        write(f"{world.cuda}/lib64/fake.txt", "version 12 9\narchs 90\n")
        builtins = f"{world.cuda}/lib64/libnvrtc-builtins.so"
        shutil.copy(f"{builtins}.13.0", f"{builtins}.12.9")
        golden("rebuild-nvrtc.txt", verify(folder, cuda=world.cuda), SIZES)


@test("the JSON of verify has the promised fields, and the differences of diff")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        plain = json.loads(kpack("verify", "--json", "out/tiny.kpk", cwd=folder).out)
        same((list(plain), plain["rebuild"]), (["image", "entries", "raw_bytes", "rebuild"], None))
        result = verify(folder, "--json")
        same((result.status, json.loads(result.out)["rebuild"]), (0, {"target": "tiny.lua", "same": True, "differences": []}))
        project(folder, tile="ROWS = 128")
        same(build(folder, "-o", "other.kpk", "tiny.lua").status, 0)
        result = verify(folder, "--json")
        found = json.loads(result.out)["rebuild"]
        same((result.status, list(found), found["same"]), (1, ["target", "same", "differences"], False))
        expected = kpack("diff", "--json", "out/tiny.kpk", "other.kpk", cwd=folder)
        same(found["differences"], json.loads(expected.out)["differences"])


@test("the same content in other packing is told as that")
def _():
    with Folder() as folder:
        project(folder, entries='"plain", "stack"')
        source(folder, "n", f"fake cubin {OTHER_CUBIN}")
        same(build(folder).status, 0)
        image = json.loads(kpack("list", "--json", "out/tiny.kpk", cwd=folder).out)
        check(all(e["spill_bytes"] is None for m in image["modules"] for e in m["entries"]), image)
        modules = [{"name": m["name"], "source": m["source"], "origin": "tiny", "constants": m["constants"],
                    "cubins": [CUBIN if m["name"] == "m" else OTHER_CUBIN],
                    "entries": [{"name": e["name"], "block": e["block"]} if e["block"] else {"name": e["name"]}
                                for e in m["entries"]]} for m in image["modules"]]
        for cap in (0, 1):
            path = describe(folder, f"cap{cap}", target="tiny", group_cap=cap, modules=modules)
            result = verify(folder, image=path)
            same(result.status, cap, result)
        golden("rebuild-packing.txt", result, SIZES + [(r"cubins? .*\n", "cubins\n")])


@test("a build that fails, a target that is not there, a folder that is not there")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        source(folder, "m", "fake log kernels/m.cu(1): error: no", "fake result 6")
        golden("rebuild-fails.txt", verify(folder), SIZES)
        os.rename(f"{folder}/tiny.lua", f"{folder}/big.lua")
        golden("rebuild-missing.txt", verify(folder), SIZES)
        result = verify(folder, env={"TMPDIR": "/no/such"})
        same(result.status, 1)
        check("cannot make the folder '/no/such/kpack-rebuild-" in result.err, result.err)
        result = verify(folder, cuda="/no/such")
        same(result.status, 1)


@test("a damaged image is not worth a build")
def _():
    with Folder() as folder:
        world = World(folder)
        project(folder)
        world.build("tiny.lua")
        bad = bytearray(read(f"{folder}/out/tiny.kpk"))
        bad[-5] ^= 1
        write(f"{folder}/bad.kpk", bad)
        write(world.count, "")
        result = verify(folder, image="bad.kpk", cuda=world.cuda)
        same((result.status, result.out, read(world.count)), (1, "", b""))
        same(result.err, kpack("verify", "bad.kpk", cwd=folder).err)


@test("a signal ends it, its workers and its folder")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        source(folder, "m", "fake hang")
        os.mkdir(f"{folder}/scratch")
        for number in (signal.SIGINT, signal.SIGTERM):
            run = Started(folder, "verify", "--rebuild", "tiny.lua", "out/tiny.kpk", fake=None,
                          env={"CUDA_HOME": FAKE, "TMPDIR": f"{folder}/scratch"})
            run.wait_for_workers()
            same(run.end(number)[0], -number)
            same(os.listdir(f"{folder}/scratch"), [])


@test("of a bundle, the part that is named is compared")
def _():
    with Folder() as folder:
        project(folder)
        same(build(folder).status, 0)
        describe(folder, "other", target="other", arch="sm_80", modules=[])
        same(kpack("bundle", "-o", "all.kpk", "other.kpk", "out/tiny.kpk", cwd=folder).status, 0)
        result = verify(folder, "--target=tiny", image="all.kpk")
        same(result.status, 0, result)
        check("all.kpk[tiny]: a fresh build of tiny.lua gives the same bytes" in result.out, result)
        result = verify(folder, image="all.kpk")
        same((result.status, result.out), (1, ""))
        check("'--rebuild' is for one target: name the part with '--target'" in result.err, result)
        same(verify(folder, "--target=other", image="all.kpk").status, 1)


main()
