#!/usr/bin/env python3
"""The cache of compiled units with a fake NVRTC that counts its compiles."""
import os
import shutil

from harness import Folder, check, main, read, same, test, write
from project import FAKE, GOOD, build, module, source, tiny


class World:
    """A project, and a CUDA folder of its own whose NVRTC says what it compiled."""

    def __init__(self, folder):
        self.folder = folder
        self.cuda = os.path.join(os.path.dirname(folder), "cuda")
        if not os.path.isdir(self.cuda):
            shutil.copytree(FAKE, self.cuda)
        self.count = write(f"{self.cuda}/lib64/compiles.txt", "")

    def build(self, *args, status=0, **more):
        """Builds; returns the stems of the sources that were compiled, sorted."""
        write(self.count, "")
        self.result = build(self.folder, *args, fake=self.cuda, **more)
        same(self.result.status, status, self.result)
        lines = read(self.count).decode().split("\n")[:-1]
        return sorted(os.path.splitext(os.path.basename(line.split(" ")[0]))[0] for line in lines)


def header(folder, name, text):
    return write(f"{folder}/kernels/{name}", text)


def two(folder):
    """m reads a.h and b.h, n reads b.h; c.h is looked for and not there."""
    tiny(folder, module("m"), module("n"))
    header(folder, "a.h", "a")
    header(folder, "b.h", "b")
    source(folder, "m", "fake open kernels/a.h", "fake open kernels/b.h", GOOD)
    source(folder, "n", "fake open kernels/c.h", "fake open kernels/b.h", GOOD)


@test("what was compiled is not compiled again")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        same(world.build(), ["m", "n"])
        check("cache" not in world.result.out, world.result)
        image = read(f"{folder}/out/tiny.kpk")
        shutil.rmtree(f"{folder}/out")
        same(world.build(), [])
        check("2 of 2 units in 0." in world.result.out and "2 from the cache" in world.result.out, world.result)
        same(read(f"{folder}/out/tiny.kpk"), image)


@test("an edit compiles the units that read the file, and no other; undone, none")
def _():
    with Folder() as folder:
        two(folder)
        world = World(folder)
        world.build()
        for name, text, units in (("a.h", "A", ["m"]), ("b.h", "B", ["m", "n"]), ("a.h", "a", ["m"]),
                                  ("b.h", "b", []), ("a.h", "A", []), ("d.h", "d", [])):
            header(folder, name, text)
            same(world.build(), units, name, text)
            same(world.build(), [], name, text)


main()
