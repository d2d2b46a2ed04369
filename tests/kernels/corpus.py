#!/usr/bin/env python3
"""What nvcc makes of the corpus: its kernels' symbols, source by source, in corpus.json.

    tests/kernels/corpus.py --record [NVCC]   compiles all of corpus/ (minutes) and writes corpus.json

corpus.t compares kpack's image with the record, and compiles a few sources anew where there is an nvcc.
"""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "corpus.json")
ARCH = "sm_90a"


def find_nvcc():
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for nvcc in [shutil.which("nvcc")] + [f"{home}/bin/nvcc" for home in homes if home]:
        if nvcc and os.access(nvcc, os.X_OK):
            return nvcc
    return None


def release(nvcc):
    text = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.search(r"release (\d+\.\d+)", text).group(1)


def expressions():
    """The C++ name expressions of corpus.lua: {module: [(entry, expression)]}."""
    found, module = {}, None
    with open(os.path.join(HERE, "corpus.lua"), encoding="utf-8") as file:
        for line in file:
            opened = re.match(r"  (\w+) = \{$", line)
            module = opened.group(1) if opened else module
            for entry in re.findall(r'k\.entry "(\w+)" \{ expression = "(.*?)" \}', line):
                found.setdefault(module, []).append(entry)
    return found


def kernels(cubin):
    """The kernels' symbols in a cubin: functions with STO_CUDA_ENTRY."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count = struct.unpack_from("<HH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    names = []
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, other = struct.unpack_from("<IBB", cubin, at)
            if info & 15 == 2 and other & 0x10:
                start = strings + name
                names.append(cubin[start:cubin.index(b"\0", start)].decode())
    return sorted(names)


def with_nvcc(nvcc, name):
    """Compiles one source. Host code that takes a template's address instantiates it."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = f"{folder}/{name}.cu", f"{folder}/{name}.cubin"
        shutil.copy(os.path.join(HERE, "corpus", f"{name}.cu"), source)
        with open(source, "a", encoding="utf-8") as file:
            for entry, expression in expressions().get(name, []):
                file.write(f"void *take_{entry}() {{ return (void *)&{expression}; }}\n")
        flags = ["-std=c++17", "--expt-relaxed-constexpr", "-w", f"-arch={ARCH}"]
        subprocess.run([nvcc, *flags, "-cubin", "-o", out, source], check=True)
        with open(out, "rb") as file:
            return kernels(file.read())


def sources():
    return sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(HERE, "corpus", "*.cu")))


def record(nvcc):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(sources(), pool.map(lambda name: with_nvcc(nvcc, name), sources())))
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump({"nvcc": release(nvcc), "arch": ARCH, "kernels": found}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] != "--record":
        sys.exit(__doc__)
    record(sys.argv[2] if len(sys.argv) > 2 else find_nvcc())
