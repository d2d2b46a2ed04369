#!/usr/bin/env python3
"""The GPU tests' ctypes structures have the sizes and offsets of the headers' structs."""
import ctypes
import importlib
import os
import re
import subprocess
import sys
import tempfile
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = os.path.join(ROOT, "tests", "gpu")
# Python module -> header, and how a class's name becomes that of the struct, where it has no c_name.
MODULES = {
    "kpk": ("runtime/kpk.h", "kpk_{}"),
    "w8a16_ops": ("ops/w8a16.h", "struct w8a16_{}"),
    "gdn_ops": ("ops/gdn.h", "struct gdn_{}"),
}


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def layouts():
    """{C struct: {field or "": (offset or size)}} as Python has them, by header."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, GPU)
    sys.modules.setdefault("torch", mock.MagicMock())  # not needed for the structures
    for module_name, (header, form) in MODULES.items():
        module = importlib.import_module(module_name)
        structs = {}
        for name, thing in vars(module).items():
            if isinstance(thing, type) and issubclass(thing, ctypes.Structure) and thing.__module__ == module_name:
                fields = {f[0]: getattr(thing, f[0]).offset for f in thing._fields_}
                structs[getattr(thing, "c_name", form.format(snake(name)))] = {"": ctypes.sizeof(thing), **fields}
        yield header, structs


def compiled(header, structs):
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{header}"', "int main(void)", "{"]
    for struct, fields in structs.items():
        for field in fields:
            what = f"offsetof({struct}, {field})" if field else f"sizeof({struct})"
            lines.append(f'    printf("%zu\\n", {what});')
    lines += ["}", ""]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "layout.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        program = os.path.join(folder, "layout")
        done = subprocess.run(["gcc", "-std=c11", "-I" + os.path.join(ROOT, "src"), source, "-o", program],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            return None, done.stdout.decode()
        return subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode().split(), ""


count, failed = 0, False
for header, structs in layouts():
    numbers, problem = compiled(header, structs)
    at = 0
    for struct, fields in structs.items():
        count += 1
        faults = [problem] if numbers is None else []
        for field, have in fields.items() if numbers else ():
            if int(numbers[at]) != have:
                faults.append(f"{field or 'size'}: {have} in Python, {numbers[at]} in {header}")
            at += 1
        failed = failed or bool(faults)
        print(f"{'not ok' if faults else 'ok'} {count} - {struct} of {header}")
        for fault in faults:
            print("\n".join("# " + line for line in fault.splitlines()))
print(f"1..{count}")
sys.exit(1 if failed or not count else 0)
