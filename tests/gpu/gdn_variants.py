#!/usr/bin/env python3
"""Packs the images of the GDN fallback tests: gdn_variants.py KPACK FOLDER [NAME ...]

The gb10 description rebuilt for sm_90a, and the hopper one with GDN modules taken out.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TC, WU, FWD_O = "gated_delta_rule_chunk_tc", "gdn_recompute_wu_hopper", "gdn_fwd_o_hopper"
SPLIT, REGISTERS, PERSISTENT = "gdn_spine_hopper", "gdn_recompute_wu_registers", "gdn_fwd_o_persistent"
QUARTERS = "gdn_spine_quarters"
FLA, MMA8 = "gated_delta_rule_fla", "gdn_chunk_fwd_o_mma8"
VARIANTS = {  # name: (description, modules taken out)
    "gb10_sm90": ("gb10", []),
    "gb10_sm90_no_mma8": ("gb10", [MMA8]),
    "gb10_sm90_no_fla": ("gb10", [FLA]),
    "hopper_no_mma8": ("hopper", [MMA8]),
    "hopper_no_quarters": ("hopper", [QUARTERS]),
    "hopper_no_split": ("hopper", [QUARTERS, SPLIT]),
    "hopper_no_registers": ("hopper", [REGISTERS]),
    "hopper_no_tc": ("hopper", [QUARTERS, SPLIT, TC]),
    "hopper_no_wu": ("hopper", [REGISTERS, WU]),
    "hopper_no_persistent": ("hopper", [PERSISTENT]),
    "hopper_no_fwd_o": ("hopper", [PERSISTENT, FWD_O]),
    "hopper_no_twins": ("hopper", [REGISTERS, WU, PERSISTENT, FWD_O]),
    "hopper_no_twins_mma8": ("hopper", [REGISTERS, WU, PERSISTENT, FWD_O, MMA8]),
    "hopper_no_twins_tc": ("hopper", [REGISTERS, WU, PERSISTENT, FWD_O, QUARTERS, SPLIT, TC]),
    "hopper_no_fla": ("hopper", [FLA]),
    "hopper_no_fla_tc": ("hopper", [FLA, QUARTERS, SPLIT, TC]),
}


def without(text, modules):
    """The description less the blocks of these modules, and less those of other families."""
    for name in modules + re.findall(r'k\.module "(w8a16\w*)"', text):
        text = re.sub(r'^ *twin_of = "%s:.*\n' % name, "", text, flags=re.M)
        text = re.sub(r'^    k\.module "%s" \{\n(?:      .*\n|\n)*    \},\n' % name, "", text, flags=re.M)
    return text


def main():
    kpack, folder, *names = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        shutil.copytree(os.path.join(ROOT, "kernels"), os.path.join(root, "kernels"))
        for name in names or VARIANTS:
            base, modules = VARIANTS[name]
            targets = os.path.join(root, "targets")
            shutil.rmtree(targets, ignore_errors=True)
            os.mkdir(targets)
            for target in ("gb10", "hopper"):
                with open(os.path.join(ROOT, "targets", target + ".lua"), encoding="utf-8") as file:
                    text = without(file.read(), modules)
                for module in modules:
                    assert f'k.module "{module}"' not in text, module
                if name.startswith("gb10_sm90"):
                    text = text.replace('arch = "sm_121a"', 'arch = "sm_90a"')
                    text = text.replace('compute = "12.1"', 'compute = "9.0"')
                with open(os.path.join(targets, target + ".lua"), "w", encoding="utf-8") as file:
                    file.write(text)
            out = os.path.join(root, "out")
            subprocess.run([kpack, os.path.join(targets, base + ".lua"), "--out", out], check=True)
            os.replace(os.path.join(out, base + ".kpk"), os.path.join(folder, name + ".kpk"))


if __name__ == "__main__":
    main()
