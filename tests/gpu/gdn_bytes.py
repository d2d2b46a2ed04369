"""Which GDN kernels give the bytes of which, over the whole grid of cases."""
import torch

from gdn_kernels import shipped, stage1
from gdn_ops import FIRST, SAME_BITS, Problem, serial_gc
from harness import bits, check, same_bits, test

# Kernels of one class: the first one's bytes, in everything they write.
SPINE_CLASSES = {"wu": SAME_BITS, "wu_hopper": ("tcfuse_x2", "x2_v64", "x2_v32")}  # by the kernel 1 that feeds them
SOLVES = ("wu_hopper", "wu_registers")
OUTPUTS = ("fwd_o", "mma8"), ("fwd_o_hopper", "fwd_o_persistent")
TOKENS = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 4096)
MIXES = ([0, 64], [64, 0, 64], [0, 0, 1], [65, 0, 63], [1, 2, 15, 16, 17], [130, 64, 0], [200, 1, 129, 0, 64])
GATES = (1.0, 0.999, 1e-3, 1e-12, 1e-30, 0.0, [1.0, 0.0, 1e-30, 0.999], (1.0, 1e-6))


def case_grid(context):
    """Every tail, empty sequences, tables, extreme gates and betas, wide and narrow heads."""
    if context.quick:
        yield Problem(context, [65, 0, 3], 1, 2, varlen=True, table=True)
        yield Problem(context, [70, 70], 1, 1, gates=(1.0, 1e-6))
        return
    for n in TOKENS:
        yield Problem(context, [n], 2, 4)
        yield Problem(context, [n, n], 1, 1, table=True)
    for lens in MIXES:
        for table in (False, True):
            yield Problem(context, lens, 1, 3, varlen=True, table=table)
    for gates in GATES:
        yield Problem(context, [200, 200], 1, 2, gates=gates, table=gates == 1.0)
    for beta in (0.0, 1e-4, 1.0):
        yield Problem(context, [321], 1, 1, beta=beta, state="ramps")
    yield Problem(context, [1500, 700], 16, 48, varlen=True)
    yield Problem(context, [600], 16, 32)


class Classes:
    """Compares what kernels wrote and counts the problems that each pair agreed in."""

    def __init__(self):
        self.counts = {}

    def compare(self, problem, what, results):
        """results: {kernel: tensors}; all equal to the first's."""
        (parent, want), *rest = results.items()
        for name, tensors in rest:
            for i, (mine, its) in enumerate(zip(tensors, want)):
                differ = (bits(mine) != bits(its)).sum().item()
                check(differ == 0, f"{problem.lens} nk={problem.nk} nv={problem.nv}: {differ} elements of "
                                   f"{what.split(', ')[i]} of {name} differ from {parent}'s")
            key = name, parent, what
            self.counts[key] = self.counts.get(key, 0) + 1

    def report(self, context):
        for (name, parent, what), count in self.counts.items():
            context.row(kernel=name, bytes_of=parent, in_what=what, problems=count)


def restore(problem, scratch):
    """A fresh problem behind kernel 1."""
    problem.reset()
    for tensor, value in zip((problem.w, problem.u, problem.gc), scratch):
        tensor.copy_(value)


@test
def classes(context):
    """Every kernel of a class over the whole grid, rows that none may write included."""
    found = Classes()
    for problem in case_grid(context):
        valid = problem.valid()
        firsts = {name: stage1(problem, name) for name in shipped(context, FIRST)}
        found.compare(problem, "gc", {"serial sums": [serial_gc(problem)[valid]],
                                      **{name: [gc[valid]] for name, (_, _, gc) in firsts.items()}})
        found.compare(problem, "gc with the rows past the end", {name: [gc] for name, (_, _, gc) in firsts.items()})
        found.compare(problem, "W, U", {name: firsts[name][:2] for name in shipped(context, SOLVES)})
        for first, spines in SPINE_CLASSES.items():
            results = {}
            for name in shipped(context, spines):
                if name == "tma" and problem.varlen:
                    continue
                restore(problem, firsts[first])
                problem.run_stage(name)
                results[name] = problem.s.clone(), problem.uc.clone(), problem.state()
            found.compare(problem, "S, uc, state", results)
            for names in OUTPUTS:
                outputs = {}
                for name in shipped(context, names):
                    bits(problem.out).fill_(-1)
                    problem.run_stage(name)
                    outputs[name] = [problem.out.clone()]
                if outputs:
                    found.compare(problem, "output", outputs)
    found.report(context)


@test
def repeats(context):
    """The same launch of one kernel again: the same bytes."""
    problem = Problem(context, [1000, 65, 0, 300], 2, 6, varlen=True)
    for name in shipped(context, ("wu", "wu_hopper", "wu_registers", "tcfuse_x2", "x2_v64", "x2_v32",
                                  "fwd_o_hopper", "fwd_o_persistent")):
        scratch = stage1(problem, "wu_hopper")
        want = None
        for i in range(3 if context.quick else 200):
            if name in FIRST:
                problem.reset()
            else:
                restore(problem, scratch)
            if name.startswith("fwd_o"):
                problem.run_stage("tcfuse_x2")
            problem.run_stage(name)
            got = [problem.state()] + [x.clone() for x in (problem.w, problem.u, problem.gc, problem.s, problem.uc,
                                                           problem.out)]
            want = want or got
            check(all(map(same_bits, got, want)), f"{name}: run {i} differs")


@test
def gate_sums(context):
    """Rows of 65 to 256 tokens with gates of their own: each chunk's sums start anew, in every kernel 1."""
    for n in (65, 129) if context.quick else (65, 66, 96, 127, 128, 129, 191, 192, 193, 255, 256):
        problem = Problem(context, [n], 1, 3)
        want, valid = serial_gc(problem), problem.valid()
        by_hand = torch.empty(problem.blocks, 64, device=context.device)
        for _, token, rows, block in problem.chunk_list():  # the oracle itself, from the inputs
            logs = problem.gb[token:token + rows, :problem.nv].double().clamp_min(1e-30).log()
            by_hand[block:block + problem.nv, :rows] = logs.cumsum(0).T.float()
        check(bool(torch.allclose(want[valid], by_hand[valid], rtol=1e-5, atol=1e-5)), f"{n}: the sums are wrong")
        for name in shipped(context, FIRST):
            gc = stage1(problem, name)[2]
            for block in range(problem.blocks):
                rows = int(valid[block].sum())
                check(same_bits(gc[block, :rows], want[block, :rows]), f"{n} tokens: gc of {name}, block {block}")
