"""Each GDN kernel alone, fed with the same inputs as its oracle; byte classes; accuracy rules."""
import statistics

import torch

from gdn_ops import (DIM, FIRST, KERNELS, SAME_BITS, SPINES, Problem, emulate_fwd_o, emulate_scalar_spine,
                     emulate_wu, serial_gc)
from harness import bits, check, rel_rms, same_bits, test

SHAPES = [  # tokens of each sequence, varlen, nk, nv
    ([1000], False, 2, 4),
    ([65, 0, 63, 64, 1, 129], True, 1, 3),
    ([127, 127], False, 2, 2),
]
QUICK = [([65, 0, 3], True, 1, 2)]


def problems(context, **more):
    for lens, varlen, nk, nv in QUICK if context.quick else SHAPES:
        yield Problem(context, lens, nk, nv, varlen=varlen, **more)


def poisoned_rows(tensor, valid):
    """Rows that a kernel must not write still hold the poison."""
    return bool((bits(tensor)[~valid] == -1).all())


def stage1(problem, name="wu"):
    """The scratch of a kernel 1, reset before."""
    problem.reset()
    problem.run_stage(name)
    return problem.w.clone(), problem.u.clone(), problem.gc.clone()


def shipped(context, names):
    return [name for name in names if context.image.resolve(*KERNELS[name]) is not None]


@test
def recompute_wu(context):
    for problem in problems(context):
        valid = problem.valid()
        w64, u64, _ = problem.exact_wu()
        ew, eu, _ = emulate_wu(problem)
        gc_want = serial_gc(problem)
        errors = {}
        for name in shipped(context, FIRST):
            w, u, gc = stage1(problem, name)
            check(same_bits(gc[valid], gc_want[valid]), f"{name}: gc differs from serial sums")
            check(all(poisoned_rows(x, valid) for x in (w, u, gc)), f"{name}: rows past a chunk's end written")
            errors[name] = rel_rms(w[valid], w64[valid]), rel_rms(u[valid], u64[valid])
            context.row(kernel=name, tokens=str(problem.lens), W=errors[name][0], U=errors[name][1],
                        W_to_emulation=rel_rms(w[valid], ew[valid]), U_to_emulation=rel_rms(u[valid], eu[valid]))
            check(max(errors[name]) < 2.5e-3, f"{name}: W, U rel_rms {errors[name]}")
        for name, pair in errors.items():
            for mine, parent in zip(pair, errors["wu"]):
                check(mine <= 1.25 * parent, f"{name}: rel_rms {mine:.2e} against the parent's {parent:.2e}")
        w, u, _ = stage1(problem)
        check(max(rel_rms(w[valid], ew[valid]), rel_rms(u[valid], eu[valid])) < 3e-4,
              "the parent differs from the f32 emulation")


@test
def gate_one(context):
    """Gates of exactly 1 decay nothing: gc is all zeros."""
    problem = Problem(context, [130], 1, 2, gates=1.0)
    for name in shipped(context, FIRST):
        _, _, gc = stage1(problem, name)
        check(bool((bits(gc[problem.valid()]) == 0).all()), name)


@test
def spines(context):
    for problem in problems(context):
        valid = problem.valid()
        scratch = stage1(problem)
        s64, uc64, h64 = problem.exact_spine()
        es, euc, eh = emulate_scalar_spine(problem)
        first, scalar = None, None
        for name in shipped(context, SPINES):
            if name == "tma" and problem.varlen:
                continue
            problem.reset()
            for tensor, value in zip((problem.w, problem.u, problem.gc), scratch):
                tensor.copy_(value)
            problem.run_stage(name)
            h = problem.state()
            got = (problem.s.clone(), problem.uc.clone(), h)
            error = [rel_rms(got[0], s64), rel_rms(got[1][valid], uc64[valid]), rel_rms(h, h64)]
            scalar = scalar or error
            context.row(spine=name, tokens=str(problem.lens), S=error[0], uc=error[1], h=error[2])
            check(poisoned_rows(got[1], valid), f"{name}: rows of uc past a chunk's end written")
            for b, n in enumerate(problem.lens):
                check(n > 0 or same_bits(h[b], problem.h0[b]), f"{name}: an empty sequence's state changed")
            if name in SAME_BITS:
                first = first or (name, got)
                for what, mine, other in zip(("S", "uc", "h"), got, first[1]):
                    check(same_bits(mine[valid] if what == "uc" else mine, other[valid] if what == "uc" else other),
                          f"{what} of {name} differs from {first[0]}")
                for what, mine, want in zip(("S", "uc", "h"), got, (es, euc, eh)):
                    if what == "uc":
                        mine, want = mine[valid], want[valid]
                    differ = (bits(mine) != bits(want)).sum().item()
                    check(differ == 0, f"{what} of {name}: {differ} elements differ from the f32 emulation")
            if name == "tcfuse":  # one limb misses the rule: that is why it does not ship as a route
                continue
            limit = 1e-3
            check(error[2] <= limit, f"{name}: final state rel_rms {error[2]:.2e}")
            for mine, parent in zip(error[:2], scalar[:2]):
                check(mine <= 1.25 * parent, f"{name}: rel_rms {mine:.2e} against the scalar spine's {parent:.2e}")


@test
def tc_vblock_against_ksplit(context):
    for problem in problems(context):
        scratch = stage1(problem)
        got = []
        for name in ("ksplit", "tc_vblock"):
            problem.reset()
            for tensor, value in zip((problem.w, problem.u, problem.gc), scratch):
                tensor.copy_(value)
            problem.run_stage(name)
            got.append(problem.state().double())
        cosine = torch.nn.functional.cosine_similarity(got[0].flatten(), got[1].flatten(), 0).item()
        ratio = (got[1].norm() / got[0].norm()).item()
        context.row(tokens=str(problem.lens), cosine_defect=1 - cosine, norm_ratio_defect=abs(1 - ratio))
        check(1 - cosine < 1e-5 and abs(1 - ratio) < 1e-3, f"cosine {cosine}, norm ratio {ratio}")


@test
def chunk_fwd_o(context):
    for problem in problems(context):
        stage1(problem)
        problem.run_stage("pipe" if context.image.resolve(*KERNELS["pipe"]) else "ksplit")
        out64 = problem.exact_fwd_o()
        emulated = emulate_fwd_o(problem)
        parent = None
        for name in shipped(context, ("fwd_o", "mma8", "fwd_o_hopper", "fwd_o_persistent")):
            bits(problem.out).fill_(-1)
            problem.run_stage(name)
            out = problem.out[:problem.tokens].clone()
            error = rel_rms(out, out64)
            parent = parent or (out, error)
            context.row(kernel=name, tokens=str(problem.lens), output=error,
                        to_emulation=rel_rms(out, emulated))
            check(error <= 1.25 * parent[1], f"{name}: rel_rms {error:.2e} against the parent's {parent[1]:.2e}")
            check(name != "mma8" or same_bits(out, parent[0]), "mma8 differs from the parent")
        check(rel_rms(parent[0], emulated) < 5e-4, "the parent differs from the f32 emulation")
        check(parent[1] < 4e-3, f"the parent's rel_rms is {parent[1]:.2e}")


@test
def drift(context):
    """32k tokens: the error of the state before the last chunk against that of the median chunk."""
    tokens = 256 if context.quick else 32768
    problem = Problem(context, [tokens], 1, 2)
    scratch = stage1(problem)
    s64, _, h64 = problem.exact_spine()
    for name in shipped(context, ("ksplit", "tc_vblock", "tcfuse_x2", "x2_v64", "x2_v32")):
        problem.reset()
        for tensor, value in zip((problem.w, problem.u, problem.gc), scratch):
            tensor.copy_(value)
        problem.run_stage(name)
        got = problem.s.double().view(-1, problem.nv * DIM * DIM)
        want = s64.view(-1, problem.nv * DIM * DIM)
        errors = ((got - want).norm(dim=1) / want.norm(dim=1)).tolist()
        h = rel_rms(problem.state(), h64)
        context.row(spine=name, chunks=len(errors), median=statistics.median(errors), last=errors[-1], h=h)
        check(errors[-1] <= 3 * statistics.median(errors), f"{name} drifts: {errors[-1]:.2e}")
        check(h <= 1e-3, f"{name}: final state {h:.2e}")
