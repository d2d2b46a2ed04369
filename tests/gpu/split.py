"""A module compiled whole, linked whole and split by entry: every entry launched, all outputs equal."""
import ctypes as C

import torch

import kpk
from harness import Skip, check, test

ENTRIES = ("axpy", "axpy_strided", "permute", "total", "scaled_3", "scaled_5")
MODULES = ("whole", "linked", "split")


@test
def split_modules(context):
    path = kpk.find("split.kpk")
    if path is None:
        raise Skip("no split.kpk in the bundle: it was made without nvJitLink")
    image = kpk.Image(path)
    objects = {}
    for module in image.modules():
        objects[module.name.decode()] = module.object_count
    check(objects == {"whole": 1, "linked": 1, "split": 5}, f"objects {objects}")
    count = 1000003
    given = context.randn(count)
    for name in ENTRIES:
        results = []
        for module in MODULES:
            kernel = image.resolve(module, name)
            check(kernel is not None, f"{module}:{name} does not resolve")
            out = torch.arange(count, device=context.device, dtype=torch.float32) * 0.001
            arguments = [C.c_void_p(out.data_ptr()), C.c_void_p(given.data_ptr()), C.c_int(count)]
            image.launch(kernel, (4,) if name == "total" else ((count + 255) // 256,), arguments)
            torch.cuda.synchronize()
            results.append(out)
        before = torch.arange(count, device=context.device, dtype=torch.float32) * 0.001
        written = int((results[0] != before).sum())
        check(torch.isfinite(results[0]).all().item(), f"{name} gives values that are not finite")
        check(written >= (4 if name == "total" else count * 0.9), f"{name} wrote {written} values")
        same = [torch.equal(results[0], r) for r in results[1:]]
        context.row(entry=name, written=written, linked="same bytes" if same[0] else "DIFFERS", split="same bytes" if same[1] else "DIFFERS")
        check(all(same), f"{name}: linked {same[0]}, split {same[1]}")
    image.close()
