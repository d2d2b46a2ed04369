"""w8a16_tc_rows: its own contract, the same for every m and over its three entries."""
import torch

import harness
from harness import check, same_bits, test
from w8a16_ops import Problem, Tiles, W8A16, check_close, decode_table, exact, recipe

# The number in w8a16.h's enum w8a16_contract.
ROWS = 2


def run_rows(ops, problem, m=None, ldc=None):
    out, route = problem.run(ops, "rows", m=m, ldc=ldc or problem.n)
    check(route.contract == ROWS, f"not launched: refusal {route.rows}")
    return out, route.entry.decode()


@test
def all_codes(context):
    """One-hot rows pick single weights; the NaN codes count as 480."""
    ops = W8A16(context.image, canonical=True)
    n, k = 256, 128
    problem = Problem(context, 64, n, k, nan_codes=True)
    problem.bs.fill_(1.0)
    codes = torch.arange(n, device="cuda:0")
    problem.B.copy_(((codes[:, None] + torch.arange(k, device="cuda:0")[None, :]) % 256).to(torch.uint8))
    for first in (0, 64):
        problem.A.zero_()
        problem.A[:, first:first + 64] = torch.eye(64, device="cuda:0")
        want = decode_table(480.0)[problem.B.long()].T[first:first + 64]
        for m in (16, 32, 64):
            out, entry = run_rows(ops, problem, m)
            wrong = (out.double() != want[:m]).sum().item()
            check(wrong == 0, f"{entry}: {wrong} codes decode wrongly")


@test
def recipe_to_the_bit(context):
    """With integers every MMA is exact, and powers of two do not round: the tiles' recipe, bit for bit."""
    ops = W8A16(context.image, canonical=True)
    n, k = (256, 384) if context.quick else (4096, 2176)
    problem = Problem(context, 64, n, k)
    problem.A.copy_(context.randint(-8, 9, (64, k)))
    problem.B.copy_(torch.tensor([0x38, 0x40, 0x48, 0xC0, 0], dtype=torch.uint8, device="cuda:0")[
        context.randint(0, 5, (n, k))])
    want = recipe(problem.A, problem.B, problem.bs)
    for m in (5, 16, 32, 64):
        out, entry = run_rows(ops, problem, m)
        wrong = (out != want[:m]).sum().item()
        check(wrong == 0, f"{entry} m={m}: {wrong} outputs differ from the recipe")


@test
def any_m(context):
    """Each row's bits are those of its run alone with the largest m; errors against f64."""
    ops = W8A16(context.image, canonical=True)
    shapes = [(256, 384)] if context.quick else [(256, 128), (256, 384), (128, 640), (12288, 2048), (5120, 5248)]
    for n, k in shapes:
        problem = Problem(context, 64, n, k, lda=k + 8)
        whole, entry = run_rows(ops, problem)
        error = check_close(whole, exact(problem.A, problem.B, problem.bs), k, f"{entry} n={n} k={k}")
        context.row(n=n, k=k, rel_rms=f"{error:.1e}")
        for m in (1, 16, 17, 32, 33, 63) if n > 256 or context.quick else range(1, 65):
            out, entry = run_rows(ops, problem, m, ldc=n + 1)
            check(same_bits(out, whole[:m]), f"{entry} m={m} n={n} k={k}: bits differ from m=64's")


@test
def gate(context):
    """Outside its gate the rows kernel leaves the work to the tile, which the route says."""
    ops = W8A16(context.image, canonical=True)
    tiles = Tiles(context.image)
    for m, n, k in ((65, 256, 256), (4, 160, 256)):
        problem = Problem(context, m, n, k)
        out, route = problem.run(ops, "by_m")
        check(route.contract == 1 and route.entry, "no tile ran")
        want, _ = problem.run(tiles.plain, "pipelined")
        check(same_bits(out, want), "the tile's bits differ")
    problem = Problem(context, 4, 256, 256)
    out, route = problem.run(ops, "by_m")
    check(route.contract == ROWS, f"rows did not run: refusal {route.rows}")
    check(harness.rel_rms(out, exact(problem.A, problem.B, problem.bs)) < 5e-3, "far from f64")
