"""Images for the tests of the audit commands, described in a few words of Python."""
import copy
import json
import os
import struct
import subprocess
import sys

from harness import ROOT, golden, kpack, read, same, write

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import read_kpk  # noqa: E402, from beside the golden images

SAMPLE = os.path.join(ROOT, "out", "tests", "sample_image")
CUBIN = os.path.join(ROOT, "tests", "golden", "cubins", "nvrtc130-sm_90a.cubin")
OTHER_CUBIN = os.path.join(ROOT, "tests", "golden", "cubins", "nvrtc124-sm_90a.cubin")
ENTRIES = ["plain", "stack", "static_smem"]  # of both cubins
DAMAGE = ("empty", "foreign", "truncated", "flipped", "missing", "folder")


def describe(folder, name, **image):
    """Writes NAME.kpk into the folder; tests/cli/sample_described.h says what `image` may hold."""
    path = write(os.path.join(folder, f"{name}.json"), json.dumps(image))
    subprocess.run([SAMPLE, "described", os.path.join(folder, f"{name}.kpk"), path], check=True)
    return f"{name}.kpk"


def module(name, cubin=CUBIN, entries=(), **more):
    """A module with one cubin; entries are names or dicts."""
    listed = [copy.deepcopy(e) if isinstance(e, dict) else {"name": e} for e in entries]
    return {"name": name, "cubins": [cubin], "entries": listed, **more}


def forge(folder, name, section_, record, offset, bytes_):
    """Overwrites bytes in a record of NAME, an image without parts, and makes its digests right again."""
    image = bytearray(read(os.path.join(folder, name)))
    at, _, _, stride = struct.unpack_from("<QQII", image, 64 + 24 * section_)
    at += record * stride + offset
    image[at:at + len(bytes_)] = bytes_
    index, size = struct.unpack_from("<QQ", image, 32)
    image[48:64] = read_kpk.digest(bytes(image[index:index + size]))
    image[368:384] = read_kpk.digest(bytes(image[:368]))
    write(os.path.join(folder, name), image)


def section(cubin, name):
    """Offset and size of a section of an ELF file."""
    offset, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3a)
    heads = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    for head in heads:
        at = heads[names][4] + head[0]
        if cubin[at:cubin.index(b"\0", at)].decode() == name:
            return head[4], head[5]
    raise KeyError(name)


def patched(folder, name, entry, at=8):
    """A copy of CUBIN with one bit of the entry's machine code changed; returns its path."""
    bytes_ = bytearray(read(CUBIN))
    offset, size = section(bytes_, f".text.{entry}")
    assert at < size
    bytes_[offset + at] ^= 1
    return write(os.path.join(folder, name), bytes_)


def damage(folder, good):
    """Files that are no usable image, made from a good one; named as in DAMAGE."""
    bytes_ = read(os.path.join(folder, good))
    flipped = bytearray(bytes_)
    flipped[400] ^= 1
    write(f"{folder}/empty.kpk", b"")
    write(f"{folder}/foreign.kpk", read(CUBIN))
    write(f"{folder}/truncated.kpk", bytes_[:-1])
    write(f"{folder}/flipped.kpk", flipped)
    os.mkdir(f"{folder}/folder.kpk")


def damaged_is_refused(folder, good, run, name):
    """run(folder, IMAGE ...) fails as list does where one image is damaged, and as golden/NAME on one without a cubin."""
    damage(folder, good)
    for bad in (f"{kind}.kpk" for kind in DAMAGE):
        expected = kpack("list", bad, cwd=folder).err
        for words in ((bad,), (good, bad), (bad, good)):
            result = run(folder, *words)
            same((result.status, result.out, result.err), (1, "", expected), words)
    write(f"{folder}/noise", b"no cubin at all " * 10)
    describe(folder, "noise", modules=[module("m", f"{folder}/noise", ["e"])])
    golden(name, run(folder, "noise.kpk"))
