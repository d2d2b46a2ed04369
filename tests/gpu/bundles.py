"""Bundles and fatbins: all.kpk holds every image, the fatbin one module of all of them."""
import ctypes as C
import os
import statistics
import tempfile
import time

import torch

import kpk
from harness import Poisoned, Skip, check, same_bits, test
from w8a16_ops import Problem

MODULE = ENTRY = "w8a16_gemm_pipelined"
M, N, K = 300, 512, 1024
WRONG_DEVICE = 9  # kpk_status
NO_BINARY = 209  # CUresult
REGISTERS, BINARY_VERSION = 4, 6  # CUfunction_attribute


def needed(name):
    path = kpk.find(name)
    if path is None:
        raise Skip(f"no {name} beside the tests: run 'make gpu-bundle'")
    return path


def run(problem, launch):
    """C of the problem by launch(grid, args)."""
    out = Poisoned(M, N)
    args = [C.c_void_p(problem.storage.data_ptr()), C.c_void_p(problem.B.data_ptr()), C.c_void_p(problem.bs.data_ptr()),
            C.c_void_p(out.pointer()), C.c_uint32(M), C.c_uint32(N), C.c_uint32(K)]
    launch(((N + 31) // 32, (M + 127) // 128), args)
    torch.cuda.synchronize()
    out.check(ENTRY)
    return out.value().clone()


def by_image(image, problem):
    kernel = image.resolve(MODULE, ENTRY)
    check(kernel is not None, f"no {MODULE}:{ENTRY}")
    return run(problem, lambda grid, args: image.launch(kernel, grid, args))


@test
def picks_the_part_of_the_device(context):
    """The bundle gives the image's own handles and results."""
    problem = Problem(context, M, N, K)
    want = by_image(context.image, problem)
    own = context.image.info()
    for target in (None, own.target.decode()):
        bundle = kpk.Image(needed("all.kpk"), target=target)
        parts = [p.target.decode() for p in bundle.parts()]
        check(len(parts) > 1, f"parts {parts}")
        check(bundle.info().target == own.target, f"target {bundle.info().target}, expected {own.target}")
        check(bundle.resolve(MODULE, ENTRY).id == context.image.resolve(MODULE, ENTRY).id, "another handle")
        check(same_bits(by_image(bundle, problem), want), "other bits than by the image")
        bundle.preload()
        bundle.close()
    context.note(f"parts {', '.join(parts)}; picked {own.target.decode()}")


@test
def reads_no_other_part(context):
    """Garbage in every other part changes nothing."""
    problem = Problem(context, M, N, K)
    want = by_image(context.image, problem)
    with open(needed("all.kpk"), "rb") as file:
        data = bytearray(file.read())
    bundle = kpk.Image(needed("all.kpk"), bind=False)
    parts = [(p.target, p.offset, p.size) for p in bundle.parts()]
    bundle.close()
    for target, offset, size in parts:
        if target != context.image.info().target:
            data[offset:offset + size] = b"\x5a" * size
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "garbage.kpk")
        with open(path, "wb") as file:
            file.write(data)
        bundle = kpk.Image(path)
        check(same_bits(by_image(bundle, problem), want), "other bits than by the image")
        bundle.preload()
        bundle.close()


@test
def refuses_the_part_of_another_device(context):
    bundle = kpk.Image(needed("all.kpk"), bind=False)
    others = [p.target.decode() for p in bundle.parts() if p.arch != context.image.info().arch]
    bundle.close()
    for target in others:
        try:
            kpk.Image(needed("all.kpk"), target=target)
        except kpk.Failed as failed:
            check(failed.status == WRONG_DEVICE, str(failed))
            context.note(str(failed))
        else:
            check(False, f"the part for {target} binds here")


@test
def costs_of_a_bundle(context):
    """Open and bind, beside the image by itself, in turns."""
    paths = {"image": needed(f"{context.image.info().target.decode()}.kpk"), "bundle": needed("all.kpk")}
    times = {name: [] for name in paths}
    for turn in range(55):
        for name, path in paths.items():
            start = time.perf_counter()
            image = kpk.Image(path)
            if turn >= 5:
                times[name].append((time.perf_counter() - start) * 1e6)
            image.close()
    for name, values in times.items():
        context.row(what=f"open + bind, {name}", us=statistics.median(values))


# ---- Fatbins ------------------------------------------------------------------------------------------


def driver():
    return C.CDLL("libcuda.so.1")


def load(cuda, path):
    """The library, and the kernel's function in this context, or the call that failed and its CUresult."""
    with open(path, "rb") as file:
        data = file.read()
    library, kernel, function = C.c_void_p(), C.c_void_p(), C.c_void_p()
    status = cuda.cuLibraryLoadData(C.byref(library), data, None, None, 0, None, None, 0)
    if status != 0:
        return None, ("cuLibraryLoadData", status)
    status = cuda.cuLibraryGetKernel(C.byref(kernel), library, ENTRY.encode())
    if status != 0:
        return None, ("cuLibraryGetKernel", status)
    status = cuda.cuKernelGetFunction(C.byref(function), kernel)
    if status != 0:
        return None, ("cuKernelGetFunction", status)
    return library, function


@test
def the_driver_loads_a_fatbin(context):
    """It takes this device's member, which computes what the image's kernel does."""
    cuda = driver()
    library, function = load(cuda, needed(f"{MODULE}.fatbin"))
    check(library is not None, f"{function}")
    value = C.c_int()
    entry = next(e for e in context.image.entries() if e.name.decode() == ENTRY)
    info = context.image.info()
    for attribute, want in ((REGISTERS, entry.registers), (BINARY_VERSION, 10 * info.compute_major + info.compute_minor)):
        check(cuda.cuFuncGetAttribute(C.byref(value), attribute, function) == 0, f"no attribute {attribute}")
        context.note(f"attribute {attribute}: {value.value}")
        check(value.value == want, f"attribute {attribute} is {value.value}, expected {want}")
    block = (entry.block.x, entry.block.y, entry.block.z)

    def launch(grid, args):
        pointers = (C.c_void_p * len(args))(*(C.addressof(a) for a in args))
        status = cuda.cuLaunchKernel(function, *grid, 1, *block, 0, C.c_void_p(context.stream()), pointers, None)
        check(status == 0, f"cuLaunchKernel: {status}")

    problem = Problem(context, M, N, K)
    check(same_bits(run(problem, launch), by_image(context.image, problem)), "other bits than by the image")
    check(cuda.cuLibraryUnload(library) == 0, "cuLibraryUnload")


@test
def the_driver_refuses_a_fatbin_for_others(context):
    bundle = kpk.Image(needed("all.kpk"), bind=False)
    others = [p.target.decode() for p in bundle.parts() if p.arch != context.image.info().arch]
    bundle.close()
    for target in others:
        library, why = load(driver(), needed(f"{MODULE}.{target}.fatbin"))
        check(library is None, f"the fatbin for {target} loads here")
        context.note(f"{target}: {why[0]} gives {why[1]}")
        check(why[1] == NO_BINARY, f"{target}: {why}, expected {NO_BINARY}")
