#!/usr/bin/env python3
"""Measures group caps on cubins of CUDA's libraries and on families of kernels (groups_kernels.cu):

    make out/obj/groups && tests/bench/groups.py FOLDER [CUDA]

FOLDER keeps the cubins and their fatbins for the next run. CUDA defaults to /usr/local/cuda.
"""
import concurrent.futures
import glob
import itertools
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARIES = ("cusolver", "cusparse")
SIZES = range(6000, 260000)  # bytes of the library cubins that are taken
FAMILIES = (  # types, TILE, ITEMS
    (("float", "__half", "__nv_bfloat16"), (128, 256, 512), (2, 4, 8)),
    (("float", "__half", "__nv_bfloat16"), (128, 256, 512), (4, 8, 16)),
    (("__half", "__nv_bfloat16"), (64, 128), (2, 4, 8)),
    (("float", "__half", "__nv_bfloat16"), (64, 128, 192, 256), (4, 8)),
    (("float", "__half", "__nv_bfloat16"), (128, 256), (2, 4, 8)),
)


def extract_libraries(folder, cuda):
    tool = subprocess.run([os.path.join(ROOT, "tests/tools/fetch-cuda-tool"), "cuobjdump"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    for name in LIBRARIES:
        subprocess.run([os.path.join(ROOT, tool), "-xelf", "all", "-arch", "sm_90",
                        f"{cuda}/lib64/lib{name}.so"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
    for path in glob.glob(f"{folder}/*.cubin"):
        if os.path.getsize(path) not in SIZES:
            os.remove(path)


def compile_families(folder, cuda):
    jobs = [(family, *tile) for family, axes in enumerate(FAMILIES)
            for tile in itertools.product(*axes)]

    def compile_one(job):
        family, kind, tile, items = job
        subprocess.run([f"{cuda}/bin/nvcc", "-std=c++17", "-cubin", "-arch=sm_90a",
                        f"-DFAMILY={family}", f"-DTYPE={kind}", f"-DTILE={tile}", f"-DITEMS={items}",
                        "-o", f"{folder}/family{family}_{kind.strip('_')}_{tile}_{items}.cubin",
                        f"{HERE}/groups_kernels.cu"], check=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, jobs))


def pack_alone(path, cuda):
    fatbin = path[:-len("cubin")] + "fatbin"
    subprocess.run([f"{cuda}/bin/fatbinary", "-64", "--compress-mode=size", f"--create={fatbin}",
                    f"--image3=kind=elf,sm=90,file={path}"], check=True)
    return os.path.getsize(fatbin)


def main():
    folder = sys.argv[1]
    cuda = sys.argv[2] if len(sys.argv) > 2 else "/usr/local/cuda"
    for name, make in (("libraries", extract_libraries), ("families", compile_families)):
        part = os.path.abspath(os.path.join(folder, name))
        if not os.path.isdir(part):
            os.makedirs(part + ".tmp")
            make(part + ".tmp", cuda)
            os.rename(part + ".tmp", part)
        cubins = sorted(glob.glob(f"{part}/*.cubin"))
        fatbins = sum(pack_alone(path, cuda) for path in cubins)
        print(f"\n{name}: ", end="", flush=True)
        subprocess.run([os.path.join(ROOT, "out/obj/groups"), str(fatbins), *cubins], check=True)


if __name__ == "__main__":
    main()
