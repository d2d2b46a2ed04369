#!/usr/bin/env python3
"""A second reader of .kpk files, written from src/runtime/FORMAT.md alone: read_kpk.py FILE

Checks all that FORMAT.md sections 7 and 9 ask of a reader, decodes the groups with the zstd command, looks every
entry up through the slots, and prints what the image, or each part of a bundle, says as JSON. No code is shared with the C reader.
"""
import hashlib
import json
import struct
import subprocess
import sys

SECTIONS = ("target", "modules", "entries", "slots", "objects", "blobs", "groups", "constants", "flags",
            "levers", "absents", "strings")
STRIDES = (64, 88, 80, 8, 8, 40, 48, 16, 8, 32, 24, 1)
MASK = 0xffffffffffffffff
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME64_5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


class Damaged(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Damaged(what)


# ---- XXH3 (the parts that files need: 64 bits up to 16 bytes, 128 bits past 16) -------------------

def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def fold(a, b):
    product = a * b
    return (product ^ product >> 64) & MASK


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def avalanche64(h):
    h ^= h >> 33
    h = h * PRIME64_2 & MASK
    h ^= h >> 29
    h = h * PRIME64_3 & MASK
    return h ^ h >> 32


def rotate(h, n):
    return (h << n | h >> 64 - n) & MASK


def xxh3_64(data, seed=0):
    n = len(data)
    if n == 0:
        return avalanche64(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        joined = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        return avalanche64(joined ^ (u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & MASK)
    if n <= 8:
        seed ^= int.from_bytes((seed & 0xffffffff).to_bytes(4, "little"), "big") << 32
        h = u32(data, n - 4) + (u32(data, 0) << 32)
        h ^= (u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & MASK
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * 0x9FB21C651E98DF25 & MASK
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if n > 16:
        raise NotImplementedError("names longer than 16 bytes")
    low = u64(data, 0) ^ (u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & MASK
    high = u64(data, n - 8) ^ (u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & MASK
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return avalanche(n + swapped + high + fold(low, high) & MASK)


def accumulate(lanes, data, at, secret_at):
    for i in range(8):
        value = u64(data, at + 8 * i)
        key = value ^ u64(SECRET, secret_at + 8 * i)
        lanes[i ^ 1] = lanes[i ^ 1] + value & MASK
        lanes[i] = lanes[i] + (key & 0xffffffff) * (key >> 32) & MASK


def merge(lanes, secret_at, start):
    for i in range(4):
        start += fold(lanes[2 * i] ^ u64(SECRET, secret_at + 16 * i),
                      lanes[2 * i + 1] ^ u64(SECRET, secret_at + 16 * i + 8))
    return avalanche(start & MASK)


def mix(sums, data, at, other, secret_at):
    """Two runs of 16 bytes into the two sums."""
    for i, (a, b) in enumerate(((at, other), (other, at))):
        key = secret_at + 16 * i
        sums[i] += fold(u64(data, a) ^ u64(SECRET, key), u64(data, a + 8) ^ u64(SECRET, key + 8))
        sums[i] = (sums[i] & MASK) ^ (u64(data, b) + u64(data, b + 8) & MASK)


def short_digest(data):
    """17 to 240 bytes."""
    n = len(data)
    sums = [n * PRIME64_1 & MASK, 0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            mix(sums, data, 16 * i, n - 16 * (i + 1), 32 * i)
    else:
        for i in range(n // 32):
            if i == 4:
                sums = [avalanche(x) for x in sums]
            mix(sums, data, 32 * i, 32 * i + 16, 32 * i if i < 4 else 3 + 32 * (i - 4))
        if n // 32 == 4:
            sums = [avalanche(x) for x in sums]
        mix(sums, data, n - 16, n - 32, 103)
    low = avalanche(sum(sums) & MASK)
    high = -avalanche(sums[0] * PRIME64_1 + sums[1] * PRIME64_4 + n * PRIME64_2 & MASK) & MASK
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


def digest(data):
    """XXH3-128, canonical."""
    n = len(data)
    if n <= 16:
        raise NotImplementedError("digests of 16 bytes or less")
    if n <= 240:
        return short_digest(data)
    lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    for stripe in range((n - 1) // 64):
        accumulate(lanes, data, 64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            for i in range(8):
                lane = lanes[i] ^ lanes[i] >> 47 ^ u64(SECRET, 128 + 8 * i)
                lanes[i] = lane * PRIME32_1 & MASK
    accumulate(lanes, data, n - 64, 121)
    low = merge(lanes, 11, n * PRIME64_1)
    high = merge(lanes, 117, ~(n * PRIME64_2) & MASK)
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


# ---- The file ------------------------------------------------------------------------------------

def read_prefix(data):
    """What images and bundles have in common: the kind, and the three fields behind it."""
    check(len(data) >= 24 and data[:8] == b"\x89KPK\r\n\x1a\n", "not a .kpk file")
    version, header_size, file_size = struct.unpack_from("<IIQ", data, 8)
    check(version == 1, f"unknown version {version}")
    check(file_size == len(data), "file size")
    check(header_size == 384 <= len(data), "header size")
    check(digest(data[:368]) == data[368:384], "header digest")
    return struct.unpack_from("<IIQQ", data, 24)


class Image:
    def __init__(self, data):
        self.data = data
        self.read_header()
        self.read_sections()
        self.read_records()
        self.cubins = [cubin for g in range(len(self.groups)) for cubin in self.read_group(g)]
        for m, module in enumerate(self.modules):
            whole = b"".join(self.cubins[self.objects[o][1]] for o in module["objects"])
            check(hashlib.blake2b(whole, digest_size=32).digest() == module["digest"], f"module {m}")

    def read_header(self):
        kind, count, self.index_offset, index_size = read_prefix(self.data)
        check(kind == 1, f"kind {kind}, expected an image")
        self.index_end = self.index_offset + index_size
        check(count == 12 and self.index_offset == 384 and self.index_end <= len(self.data), "header")
        check(not any(self.data[352:368]), "header reserved")
        check(digest(self.data[384:self.index_end]) == self.data[48:64], "index digest")

    def read_sections(self):
        end, self.sections = self.index_offset, {}
        for i, name in enumerate(SECTIONS):
            offset, size, count, stride = struct.unpack_from("<QQII", self.data, 64 + 24 * i)
            check(stride == STRIDES[i] and size == count * stride, f"{name} size")
            check(offset % 8 == 0 and 0 <= offset - end < 8, f"{name} offset")
            check(not any(self.data[end:offset]), f"{name} gap")
            end = offset + size
            check(end <= self.index_end, f"{name} end")
            self.sections[name] = (offset, count, stride)
        check(self.index_end - end < 8 and not any(self.data[end:self.index_end]), "index end")

    def records(self, name, layout):
        offset, count, stride = self.sections[name]
        check(struct.calcsize("<" + layout) == stride, name)
        return [struct.unpack_from("<" + layout, self.data, offset + i * stride) for i in range(count)]

    def text(self, offset, size, name=False):
        start, count, _ = self.sections["strings"]
        check(offset + size < count and self.data[start + offset + size] == 0, "string bounds")
        check(size or not name, "empty name")
        text = self.data[start + offset:start + offset + size]
        check(b"\0" not in text, "NUL in a string")
        return text.decode("utf-8")

    def read_records(self):
        target, = self.records("target", "6I8IQ")
        check(target[13] == 0, "target reserved")
        self.target = {
            "name": self.text(*target[0:2], True), "arch": self.text(*target[2:4], True),
            "stamp": self.text(*target[4:6]), "compute": list(target[6:8]), "min_driver": target[8],
            "nvrtc": list(target[9:11]), "sm_count": target[11], "smem_optin": target[12],
            "raw_bytes": target[14]}
        self.constants = [(self.text(o, s, True), v) for o, s, v in self.records("constants", "IIq")]
        self.flags = [self.text(*f) for f in self.records("flags", "II")]
        self.objects = self.records("objects", "II")
        self.blobs = self.records("blobs", "QQ16sII")
        self.groups = self.records("groups", "QQQ16sII")
        self.slots = self.records("slots", "II")
        self.read_modules()
        self.read_entries()
        self.levers = []
        for r in self.records("levers", "8I"):
            check(r[6] <= 3 and r[7] <= 1, "lever kind")
            self.levers.append({"name": self.text(*r[0:2], True), "env": self.text(*r[2:4], True),
                                "text": self.text(*r[4:6]), "kind": r[6], "on": r[7]})
        self.absents = [[self.text(*r[0:2], True), self.text(*r[2:4], True), self.text(*r[4:6])]
                        for r in self.records("absents", "6I")]
        check(self.absents == sorted(self.absents), "absents' order")
        check(sum(b[1] for b in self.blobs) == self.target["raw_bytes"], "raw bytes")

    def read_modules(self):
        self.modules, ends = [], [0, 0, 0, 0]
        for r in self.records("modules", "6I8I32s"):
            runs = []
            for k in range(4):
                first, count = r[6 + 2 * k], r[7 + 2 * k]
                check(first == ends[k], "module runs")
                ends[k] = first + count
                runs.append(range(first, first + count))
            self.modules.append({
                "name": self.text(*r[0:2], True), "source": self.text(*r[2:4]),
                "origin": self.text(*r[4:6]), "entries": runs[0], "objects": runs[1],
                "constants": runs[2], "flags": runs[3], "digest": r[14]})
        totals = [self.sections[name][1] for name in ("entries", "objects", "constants", "flags")]
        check(ends == totals, "module runs' ends")
        names = [m["name"].encode() for m in self.modules]
        check(names == sorted(set(names)), "modules' order")
        for m, module in enumerate(self.modules):
            check(all(self.objects[o][0] == m for o in module["objects"]), "object's module")

    def read_entries(self):
        self.entries = []
        for i, r in enumerate(self.records("entries", "16IQII")):
            module, obj, present, bits = r[4], r[5], r[14], r[15]
            check(module < len(self.modules) and i in self.modules[module]["entries"], "entry's module")
            check(obj in self.modules[module]["objects"], "entry's object")
            check(present <= 7 and bits <= 2, "entry's bits")
            check(r[16] <= self.blobs[self.objects[obj][1]][1], "entry's code")
            block = list(r[6:9]) if present & 1 else None
            if block:
                product = block[0] * block[1] * block[2]
                check(all(1 <= n <= 1024 for n in block) and product <= 1024, "entry's block")
            else:
                check(not any(r[6:9]), "entry's block")
            self.entries.append({
                "module": self.modules[module]["name"], "name": self.text(*r[0:2], True),
                "twin_of": self.text(*r[2:4]), "object": obj, "block": block,
                "dynamic_smem": r[9] if present & 2 else None, "static_smem": r[10],
                "registers": r[11], "stack_bytes": r[12],
                "spill_bytes": r[13] if present & 4 else None, "twin_bits": bits, "code_bytes": r[16],
                "symbol": self.text(*r[17:19])})

    def read_group(self, index):
        offset, packed_size, raw_size, checksum, first, count = self.groups[index]
        at = self.groups[index - 1][0] + self.groups[index - 1][1] if index else self.index_end
        check(offset == at and packed_size and 0 < raw_size <= 1 << 30, "group bounds")
        if index == len(self.groups) - 1:
            check(offset + packed_size == len(self.data), "last group's end")
        packed = self.data[offset:offset + packed_size]
        check(digest(packed) == checksum, "group digest")
        raw = subprocess.run(["zstd", "-dcq"], input=packed, stdout=subprocess.PIPE, check=True).stdout
        check(len(raw) == raw_size, "group raw size")
        end = 0
        for start, size, checksum, group, reserved in self.blobs[first:first + count]:
            check(start == end and size and group == index and not reserved, "blob bounds")
            end += size
            check(digest(raw[start:end]) == checksum, "blob digest")
            yield raw[start:end]
        check(end == raw_size, "group's blobs")

    def find(self, module, entry):
        count = len(self.slots)
        check(count and count & count - 1 == 0 and count > len(self.entries), "slot count")
        value = xxh3_64(entry.encode(), xxh3_64(module.encode()))
        at = value & count - 1
        while self.slots[at][1]:
            tag, index = self.slots[at][0], self.slots[at][1] - 1
            found = self.entries[index]
            if tag == value >> 32 and (found["module"], found["name"]) == (module, entry):
                return index
            at = at + 1 & count - 1
        return None

    def facts(self):
        for i, entry in enumerate(self.entries):
            check(self.find(entry["module"], entry["name"]) == i, "entry not found by its name")
        return {
            "target": self.target,
            "modules": [{"name": m["name"], "source": m["source"], "origin": m["origin"],
                         "constants": {k: v for k, v in (self.constants[i] for i in m["constants"])},
                         "flags": [self.flags[i] for i in m["flags"]],
                         "cubins": [hashlib.sha256(self.cubins[self.objects[o][1]]).hexdigest()
                                    for o in m["objects"]]} for m in self.modules],
            "entries": self.entries, "levers": self.levers, "absents": self.absents,
            "groups": len(self.groups), "slots": len(self.slots)}


class Bundle:
    """Every part of it is read, and every byte between them."""

    def __init__(self, data):
        kind, count, offset, size = read_prefix(data)
        check(kind == 2, f"kind {kind}, expected a bundle")
        check(1 <= count <= 256 and offset == 384 and 64 * count <= size <= 1 << 20, "bundle header")
        check(offset + size <= len(data) and not any(data[64:368]), "bundle header")
        table = data[offset:offset + size]
        check(digest(table) == data[48:64], "table digest")
        self.parts, end, archs = [], offset + size, set()  # (target, offset, image)
        for i in range(count):
            r = struct.unpack_from("<8IQQ16s", table, 64 * i)
            target, arch = (self.text(table[64 * count:], *r[k:k + 2]) for k in (0, 2))
            start, part_size = r[8], r[9]
            check(r[7] == 0 and start == -(-end // 4096) * 4096, "part offset")
            check(part_size >= 384 and start + part_size <= len(data), "part size")
            check(not self.parts or self.parts[-1][0].encode() < target.encode(), "parts' order")
            check(arch not in archs and not any(data[end:start]), "part arch or gap")
            end = start + part_size
            check(data[start + 368:start + 384] == r[10], "part digest")
            image = Image(data[start:end])
            own = image.target
            check([own["name"], own["arch"], *own["compute"], own["min_driver"]] == [target, arch, *r[4:7]], "part record")
            archs.add(arch)
            self.parts.append((target, start, image))
        check(end == len(data), "bytes behind the last part")

    @staticmethod
    def text(strings, offset, size):
        check(size and offset + size < len(strings) and strings[offset + size] == 0, "string bounds")
        check(b"\0" not in strings[offset:offset + size], "NUL in a string")
        return strings[offset:offset + size].decode("utf-8")

    def facts(self):
        return {target: image.facts() for target, _, image in self.parts}


def open_file(data):
    check(len(data) >= 28, "not a .kpk file")
    return Bundle(data) if data[24] == 2 else Image(data)


def open_parts(data):
    """[(target, offset)] of a bundle that is good in every byte."""
    return [(target, offset) for target, offset, _ in Bundle(data).parts]


def main():
    with open(sys.argv[1], "rb") as file:
        image = open_file(file.read())
    json.dump(image.facts(), sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    try:
        main()
    except Damaged as fault:
        sys.exit(f"{sys.argv[1]}: damaged: {fault}")
