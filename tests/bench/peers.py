#!/usr/bin/env python3
"""Writes an image's cubins and their size-mode fatbins for load: peers.py IMAGE FOLDER FATBINARY"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu"))
import kpk


def main():
    path, folder, fatbinary = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    image = kpk.Image(path, bind=False)
    arch = image.info().arch.decode().removeprefix("sm_")
    first_entry = {}
    for entry in image.entries():
        first_entry.setdefault(entry.module.decode(), entry.name.decode())
    raw = packed = 0
    with open(os.path.join(folder, "modules"), "w", encoding="ascii") as listing:
        for module, cubin in image.cubins():
            base = os.path.join(folder, module)
            with open(base + ".cubin", "wb") as file:
                file.write(cubin)
            subprocess.run([fatbinary, "-64", "--compress-mode=size", f"--create={base}.fatbin",
                            f"--image3=kind=elf,sm={arch},file={base}.cubin"], check=True)
            raw, packed = raw + len(cubin), packed + os.path.getsize(base + ".fatbin")
            print(f"{module} {first_entry[module]}", file=listing)
    size = image.info().file_bytes
    print(f"{os.path.basename(path)}: cubins {raw} bytes, size-mode fatbins {packed}, image {size}: "
          f"{(size - 4096) / packed:.2f} of the fatbins")


if __name__ == "__main__":
    main()
