#!/usr/bin/env python3
"""The build without a CUDA toolkit: it is hidden by a mount namespace, and set-up fetches the wheels.

The wheels stay under out/wheels/, so that only the first run needs the network.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WHEELS = os.path.join(ROOT, "out", "wheels")
KPACK = os.path.join(ROOT, "out", "bin", "kpack")
results = []


def check(name, held, note=""):
    results.append(held)
    print(f"{'ok' if held else 'not ok'} {len(results)} - {name}")
    if not held:
        print("\n".join("# " + line for line in str(note).splitlines()))


def finish():
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def hidden(command, cwd, network=True, env=None):
    """Runs a shell command where no toolkit can be found."""
    places = {os.path.realpath(p) for p in glob.glob("/usr/local/cuda*") + ["/opt/cuda", "/usr/lib/cuda"]
              if os.path.isdir(p)}
    mounts = "".join(f"mount -t tmpfs none '{p}' && " for p in sorted(places))
    kept = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k == "HOME" or k.endswith("_proxy")}
    kept.update(env or {}, PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    flags = ["-m"] if network else ["-m", "-n"]
    done = subprocess.run(["unshare", *flags, "sh", "-c", mounts + command], cwd=cwd, env=kept, timeout=280,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def new_tree(folder, name):
    tree = os.path.join(folder, name)
    os.makedirs(os.path.join(tree, "out", "bin"))
    shutil.copy(KPACK, os.path.join(tree, "out", "bin"))
    shutil.copytree(os.path.join(ROOT, ".ci"), os.path.join(tree, ".ci"))
    return tree


def offline(folder):
    tree = new_tree(folder, "offline")
    code, text = hidden(".ci/setup cuda", tree, network=False)
    check("no network: fails and says what to do", code == 1 and "cannot fetch nvidia-cuda-nvrtc" in text
          and "set CUDA_HOME" in text, text)
    check("no network: no half folder", not os.path.exists(os.path.join(tree, "out", "cuda")))


def wrong_variable(folder):
    tree = new_tree(folder, "variable")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        code, text = hidden(".ci/setup cuda", tree, env={name: "/nonexistent"})
        check(f"a {name} without NVRTC is an error that names it",
              code == 1 and f"'/nonexistent', which {name} names" in text and "correct it or unset it" in text, text)
    with open(os.path.join(tree, "out", "bin", "kpack"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho 'found by CUDA_HOME'\n")
    code, text = hidden(".ci/setup cuda", tree)
    check("a toolkit that serves is taken and nothing is fetched",
          (code, text) == (0, "") and not os.path.exists(os.path.join(tree, "out", "wheels")), text)
    os.remove(os.path.join(tree, "out", "bin", "kpack"))
    code, text = hidden(".ci/setup cuda", tree)
    check("without the tool: says to build it", code == 1 and "with 'make'" in text, text)


def fetched(folder):
    tree = new_tree(folder, "wheels")
    os.makedirs(WHEELS, exist_ok=True)
    os.symlink(WHEELS, os.path.join(tree, "out", "wheels"))
    os.makedirs(os.path.join(tree, "out", "cuda.tmp", "left-over"))
    code, text = hidden(".ci/setup cuda & .ci/setup cuda && wait $!", tree)
    if code != 0 and "after connection broken by" in text:
        check("the wheels are fetched # SKIP PyPI cannot be reached", True)
        return None
    check("two set-ups at once fetch the wheels and both succeed", code == 0, text)
    cuda = os.path.join(tree, "out", "cuda")
    missing = [p for p in ("lib/libnvrtc.so.13", "lib/libnvrtc-builtins.so.13.0", "lib/libnvJitLink.so.13",
                           "include/nvrtc.h", "include/cuda.h", "include/cuda_fp16.h", "include/crt/host_defines.h",
                           "include/cccl/cuda/std/type_traits", "include/curand_kernel.h")
               if not os.path.exists(os.path.join(cuda, "nvidia", "cu13", p))]
    check("NVRTC, nvJitLink and the headers are there", not missing, missing)
    check("what an interrupted run left is gone", not os.path.exists(os.path.join(cuda, "left-over"))
          and not os.path.exists(cuda + ".tmp"))
    os.remove(os.path.join(cuda, "wheels.txt"))
    code, text = hidden(".ci/setup cuda", tree, network=False)
    check("other pins than those of out/cuda: unpacked again", code == 0 and "wheels of CUDA" in text
          and os.path.exists(os.path.join(cuda, "wheels.txt")), text)
    code, text = hidden(".ci/setup cuda", tree, network=False)
    check("a second run needs no network and says nothing", (code, text) == (0, ""), text)
    return tree


def damaged(folder):
    """A wheel with one wrong byte must not be used."""
    tree = new_tree(folder, "damaged")
    wheels = os.path.join(tree, "out", "wheels")
    shutil.copytree(WHEELS, wheels)
    victim = glob.glob(os.path.join(wheels, "nvidia_cuda_crt-*.whl"))[0]
    with open(victim, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    code, text = hidden(".ci/setup cuda", tree, network=False)
    check("a damaged wheel is dropped and asked for again", code == 1 and "cannot fetch nvidia-cuda-crt" in text
          and not os.path.exists(victim) and not os.path.exists(os.path.join(tree, "out", "cuda")), text)


def small_build(tree):
    os.makedirs(os.path.join(tree, "src"))
    with open(os.path.join(tree, "tiny.lua"), "w", encoding="utf-8") as file:
        file.write('local k = require "kpack"\nreturn k.target {\n  name = "tiny", arch = "sm_90a",\n'
                   '  modules = { k.module "tiny" { source = "src/tiny.cu", entries = { "tiny" } } },\n}\n')
    with open(os.path.join(tree, "src", "tiny.cu"), "w", encoding="utf-8") as file:
        file.write('#include <cuda_fp16.h>\n#include <cuda/std/type_traits>\n#include <curand_kernel.h>\n'
                   'extern "C" __global__ void tiny(half *x) { x[threadIdx.x] = __float2half(1.0f); }\n')
    code, text = hidden("out/bin/kpack tiny.lua -o out/tiny.kpk && out/bin/kpack list out/tiny.kpk", tree,
                        network=False)
    check("a build finds out/cuda and packs an image", code == 0 and "tiny" in text, text)
    code, text = hidden("cd src && ../out/bin/kpack --cuda ../out/cuda ../tiny.lua -o ../out/again.kpk && "
                        "CUDA_HOME=../out/cuda ../out/bin/kpack ../tiny.lua -o ../out/third.kpk && "
                        "cmp ../out/tiny.kpk ../out/again.kpk && cmp ../out/tiny.kpk ../out/third.kpk", tree, network=False)
    check("relative folders of CUDA, from outside the root, give the same image", code == 0, text)
    code, text = hidden("out/bin/kpack doctor", tree, network=False)
    check("doctor says that it is out/cuda", code == 0 and "out/cuda" in text, text)


if os.geteuid() != 0:
    skip_all("hiding the toolkit needs root")
if subprocess.run(["unshare", "-m", "-n", "true"], stderr=subprocess.DEVNULL).returncode != 0:
    skip_all("unshare cannot make namespaces here")
with tempfile.TemporaryDirectory() as work:
    offline(work)
    wrong_variable(work)
    built = fetched(work)
    if built:
        damaged(work)
        small_build(built)
finish()
