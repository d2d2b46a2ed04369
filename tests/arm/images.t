#!/usr/bin/env python3
"""An image packed on one architecture has the bytes that it has on the other, and opens on both."""
import json
import os
import subprocess
import sys

import arm64

arm64.need()
os.environ["KPACK_TEST_OUT"] = "out"  # not the sanitized tool, which would pack the same again
sys.path.insert(0, os.path.join(arm64.ROOT, "tests", "cli"))
import harness  # noqa: E402
from harness import Folder, binary, check, main, read, same, test, write  # noqa: E402
from images import CUBIN, SAMPLE  # noqa: E402
from project import FAKE, GOOD, module, source, target  # noqa: E402

CORPUS = os.path.join(arm64.ROOT, "tests", "fuzz", "corpus", "image")


def answer(command, folder):
    done = subprocess.run(command, cwd=folder, env=harness.environment(), timeout=200, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def run(command, folder):
    status, text = answer(command, folder)
    same(status, 0, *command, text)
    return text


def pack(folder, name, *words):
    """Packs with sample_image on both and compares; returns the image's path."""
    for where, command in (("here", [SAMPLE]), ("arm", [*arm64.QEMU, os.path.join(arm64.OUT, "tests", "sample_image")])):
        os.makedirs(f"{folder}/{where}", exist_ok=True)
        run([*command, words[0], f"{folder}/{where}/{name}.kpk", *words[1:]], folder)
    same(read(f"{folder}/here/{name}.kpk"), read(f"{folder}/arm/{name}.kpk"), name)
    return f"{folder}/arm/{name}.kpk"


def compare(image, folder, verdict=0):
    """Lets both tools list and verify an image: the same words, and this verdict."""
    for words in (["list", image], ["list", "--json", image], ["verify", image]):
        here, there = answer([binary(), *words], folder), answer([arm64.KPACK, *words], folder)
        same(there, here, *words)
    same(here[0], verdict, image, here[1])


@test("one of everything, hostile names, no lists, real cubins, wrong figures")
def _():
    with Folder() as folder:
        for kind in ("sample", "hostile", "bare", "real", "wrong"):
            compare(pack(folder, kind, kind, CUBIN), folder, verdict=kind != "real")


@test("the cubins of the images that this project ships, in groups")
def _():
    with Folder() as folder:
        for name in ("hopper", "gb10"):
            shipped = os.path.join(arm64.ROOT, "out", f"{name}.kpk")
            if not os.path.exists(shipped):
                raise harness.Skip(f"out/{name}.kpk is not built")
            modules = []
            for listed in json.loads(run([binary(), "list", "--json", shipped], folder))["modules"]:
                cubin = f"{folder}/{name}-{listed['name']}.cubin"
                run([arm64.KPACK, "extract", shipped, listed["name"], "-o", cubin], folder)
                run([binary(), "extract", shipped, listed["name"], "-o", cubin + ".here"], folder)
                same(read(cubin), read(cubin + ".here"), cubin)
                modules.append({"name": listed["name"], "cubins": [cubin],
                                "entries": [{"name": e["name"], "symbol": e["symbol"]} for e in listed["entries"]]})
            described = write(f"{folder}/{name}.json", json.dumps({"modules": modules}))
            compare(pack(folder, name, "described", described), folder)
            compare(shipped, folder)


@test("a build whose units are in the cache: the same image and sidecar, and from then on no work")
def _():
    with Folder() as folder:
        for name in ("one", "two"):
            source(folder, name, GOOD)
        write(f"{folder}/tiny.lua", target([module("one", more="tile = { ROWS = 64 },"), module("two")],
              more='levers = { fast = { env = "FAST", default = true } },'))
        words = ["--cuda", FAKE, "tiny.lua", "--out"]
        run([binary(), *words, "here"], folder)
        text = run([arm64.KPACK, *words, "arm"], folder)
        check("2 from the cache" in text, text)
        for name in ("tiny.kpk", "tiny.kpk.json"):
            same(read(f"{folder}/here/{name}"), read(f"{folder}/arm/{name}"), name)
        compare(f"{folder}/arm/tiny.kpk", folder)
        run([arm64.KPACK, *words, "here"], folder)
        run([binary(), *words, "arm"], folder)


@test("hostile images: the same answer, in the same words")
def _():
    with Folder() as folder:
        for name in sorted(os.listdir(CORPUS))[::4]:
            words = ["verify", os.path.join(CORPUS, name)]
            same(answer([arm64.KPACK, *words], folder), answer([binary(), *words], folder), name)


main()
