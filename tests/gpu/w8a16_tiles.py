"""The W8A16 tiles against their oracle and against one another, to the bit."""
import torch

import harness
import kpk
from harness import Skip, check, same_bits, test
from w8a16_ops import Problem, Tiles, check_close, decode_table, exact, recipe

ALL_M = list(range(0, 301))
SHAPES = [(12288, 2048), (2048, 4096), (12288, 5120), (5120, 4096)]
EDGE_N = [8, 24, 32, 40, 128, 160]
EDGE_K = [128, 256, 384, 2048, 5120, 5248, 17408]


@test
def all_codes(context):
    """One-hot rows pick single weights: every code must decode exactly, NaN codes to zero."""
    tiles = Tiles(context.image)
    n, k = 256, 256
    problem = Problem(context, 256, n, k, nan_codes=True)
    problem.A.copy_(torch.eye(256, device="cuda:0"))
    column = torch.arange(n, device="cuda:0")
    problem.B.copy_(((column[:, None] + column[None, :]) % 256).to(torch.uint8))
    problem.bs.fill_(1.0)
    want = decode_table()[problem.B.long()].T
    for m in (16, 32, 64, 128, 256):
        for ops, name in tiles.ways(m, n):
            out, _ = problem.run(ops, name, m=m)
            wrong = (out.double() != want[:m]).sum().item()
            check(wrong == 0, f"{name} m={m}: {wrong} of {m * n} codes decode wrongly")


@test
def recipe_to_the_bit(context):
    """With integers every MMA is exact, so the fold's two roundings must show bit for bit."""
    tiles = Tiles(context.image)
    n, k = (256, 512) if context.quick else (4096, 2048)
    for m in (7, 32, 64, 300):
        problem = Problem(context, m, n, k)
        problem.A.copy_(context.randint(-8, 9, (m, k)))
        whole = [c for c in range(256) if (c & 0x7F) in (0, *range(0x38, 0x58)) and
                 float(decode_table()[c]).is_integer()]
        codes = torch.tensor(whole, dtype=torch.uint8, device="cuda:0")
        problem.B.copy_(codes[context.randint(0, len(whole), (n, k))])
        want = recipe(problem.A, problem.B, problem.bs)
        for ops, name in tiles.ways(m, n):
            out, _ = problem.run(ops, name)
            wrong = (out != want).sum().item()
            check(wrong == 0, f"{name} m={m}: {wrong} of {m * n} outputs differ from the recipe")


def one_shape(context, tiles, m, n, k, lda=None, ldc=None):
    problem = Problem(context, m, n, k, lda)
    reference = exact(problem.A, problem.B, problem.bs)
    first = None
    errors = {}
    for ops, name in tiles.ways(m, n, strided=lda is not None):
        out, route = problem.run(ops, name, ldc=ldc)
        entry = route.entry.decode()
        errors[entry] = check_close(out, reference, k, f"{entry} m={m} n={n} k={k}")
        check(first is None or same_bits(out, first), f"{entry} m={m} n={n} k={k}: bits differ")
        first = out
    rms = harness.rel_rms(recipe(problem.A, problem.B, problem.bs), first)
    check(rms <= 1e-3, f"m={m} n={n} k={k}: rel_rms {rms:.2e} against the recipe")
    return errors


@test
def model_shapes(context):
    """The layers' shapes: error against f64, equal bits from all tiles."""
    if context.quick:
        raise Skip("large")
    tiles = Tiles(context.image)
    for n, k in SHAPES:
        for m in (1, 5, 7, 16, 17, 24, 32, 33, 64, 65, 127, 128, 129, 255, 256, 257, 2048):
            errors = one_shape(context, tiles, m, n, k)
            if m in (1, 32, 64, 256):
                context.row(n=n, k=k, m=m, **{name[6:]: f"{e:.1e}" for name, e in errors.items()})


@test
def edges(context):
    """Every N and K edge, also with padded pitches (+inf in A's pads, odd pitch of C)."""
    tiles = Tiles(context.image)
    for n in EDGE_N[:6 if not context.quick else 3]:
        for k in EDGE_K[:len(EDGE_K) if not context.quick else 3]:
            for m in (1, 16, 17, 33, 130):
                one_shape(context, tiles, m, n, k)
                one_shape(context, tiles, m, n, k, lda=k + 8, ldc=n + 1)


@test
def every_m(context):
    """A row's bits depend on neither m nor the tile; every element is written, none beside it."""
    tiles = Tiles(context.image)
    for n, k in [(160, 256)] if context.quick else [(160, 256), (256, 384)]:
        problem = Problem(context, 300, n, k)
        whole, _ = problem.run(tiles.plain, "pipelined")
        check_close(whole, exact(problem.A, problem.B, problem.bs), k, "pipelined m=300")
        for m in (1, 15, 16, 17, 32, 33, 64, 65, 128, 129) if context.quick else ALL_M[1:]:
            for ops, name in tiles.ways(m, n) + [(tiles.named, "by_m")]:
                out, route = problem.run(ops, name, m=m)
                check(same_bits(out, whole[:m]), f"{name} ({route.entry.decode()}) m={m}: bits differ")


@test
def row_subsets(context):
    """Any selection of rows gives those rows' bits."""
    tiles = Tiles(context.image)
    n, k = 256, 1024
    problem = Problem(context, 300, n, k)
    whole, _ = problem.run(tiles.plain, "pipelined")
    for count in (1, 3, 16, 31, 48, 64, 130, 257):
        pick = torch.randperm(300, generator=context.generator, device="cuda:0")[:count]
        part = Problem(context, count, n, k)
        part.A.copy_(problem.A[pick])
        part.B, part.bs = problem.B, problem.bs
        for ops, name in tiles.ways(count, n):
            out, _ = part.run(ops, name)
            check(same_bits(out, whole[pick]), f"{name}: {count} picked rows have other bits")


@test
def scales(context):
    """Scales of 0, subnormal and large ones, distinct per block."""
    tiles = Tiles(context.image)
    n, k = 384, 512
    for low, high in ((0.0, 0.0), (1e-42, 1e-39), (1e4, 1e4), (1e-30, 1e4)):
        problem = Problem(context, 40, n, k)
        problem.bs.copy_(low + (high - low) * context.rand(*problem.bs.shape))
        reference = exact(problem.A, problem.B, problem.bs)
        outs = [problem.run(ops, name)[0] for ops, name in tiles.ways(40, n)]
        for out in outs:
            check(same_bits(out, outs[0]), f"scales {low}..{high}: bits differ")
            want = recipe(problem.A, problem.B, problem.bs)
            if high == 0.0:
                check(not out.any().item(), "scales of 0 give something")
            else:
                check(harness.rel_rms(out, want) <= 1e-3, f"scales {low}..{high}: off the recipe")
                check_close(out, reference, k, f"scales {low}..{high}")


@test
def twins_run(context):
    """Where the image ships Hopper twins, every launcher takes one, and none that was asked for none."""
    tiles = Tiles(context.image)
    if not tiles.each:
        raise Skip("no twins in this image")
    seen = set()
    for m, n in ((1, 256), (16, 8192), (16, 12288), (16, 17408), (17, 2048), (48, 2048), (32, 4096), (32, 8192),
                 (32, 12288), (32, 17408), (64, 8192), (64, 12288), (64, 17408), (512, 2048), (2048, 12288)):
        problem = Problem(context, m, n, 256)
        for name in ("by_m", "pipelined", "m32", "m64"):
            _, route = problem.run(tiles.twins, name)
            check(b"hopper" in route.entry, f"{name} m={m} ran {route.entry.decode()}, refusal {route.twin}")
            seen.add(route.entry.decode())
            _, route = problem.run(tiles.named, name)
            check(b"hopper" not in route.entry, f"{name} m={m} ran {route.entry.decode()}")
    unseen = {name for name in tiles.shipped if name.startswith("w8a16_gemm_hopper")} - seen
    check(not unseen, f"no launcher took {unseen}")


@test
def no_rows(context):
    """m = 0 and n = 0: by_m launches nothing and succeeds, the raw launchers refuse."""
    tiles = Tiles(context.image)
    problem = Problem(context, 4, 128, 128)
    out = harness.Poisoned(4, 128)
    for m, n in ((0, 128), (4, 0), (0, 0)):
        route = tiles.twins.launch("by_m", problem.storage, problem.B, problem.bs, out.pointer(), m, n, 128)
        check(route.contract == 0 and route.entry == b"", "by_m launched something")
        for name in ("pipelined", "m32", "m64"):
            try:
                tiles.twins.launch(name, problem.storage, problem.B, problem.bs, out.pointer(), m, n, 128)
            except kpk.Failed as refused:
                check("0" in str(refused), f"{name}: {refused}")
            else:
                check(False, f"{name} accepted m={m} n={n}")
    torch.cuda.synchronize()
    check(not (harness.bits(out.buffer) != harness.POISON[torch.bfloat16]).any().item(), "C was touched")


@test
def misaligned(context):
    """Addresses that vector loads cannot take are refused, not launched."""
    tiles = Tiles(context.image)
    problem = Problem(context, 4, 128, 128)
    out = harness.Poisoned(4, 128)
    good = [problem.storage.data_ptr(), problem.B.data_ptr(), problem.bs.data_ptr(), out.pointer()]
    for which, offset in ((0, 2), (0, 8), (1, 1), (1, 8), (2, 2), (3, 2)):
        bad = list(good)
        bad[which] += offset
        for name in ("pipelined", "m32", "m64", "by_m"):
            try:
                tiles.twins.launch(name, *bad, 4, 128, 128)
            except kpk.Failed as refused:
                check("aligned" in str(refused), f"{name}: {refused}")
            else:
                check(False, f"{name} accepted argument {which} off by {offset} bytes")


@test
def repeats(context):
    """Two hundred runs give the same bits."""
    tiles = Tiles(context.image)
    for m, n, k in ((8, 2048, 4096), (24, 2048, 4096), (64, 2048, 4096), (512, 1024, 2048)):
        problem = Problem(context, m, n, k)
        for ops, name in tiles.ways(m, n):
            outs = [torch.empty(m, n, dtype=torch.bfloat16, device="cuda:0") for _ in range(2)]
            for turn in range(20 if context.quick else 200):
                ops.launch(name, problem.storage, problem.B, problem.bs, outs[turn > 0].data_ptr(), m, n, k)
                check(turn == 0 or same_bits(*outs), f"{name} m={m}: run {turn} has other bits")
