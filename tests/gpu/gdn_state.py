"""The state over several calls and over long prompts, whole routes: pools of slots, reuse, drift."""
import random
import statistics

import torch

from gdn_ops import CHUNK, DIM, Problem, make_pool
from gdn_routes import routes
from harness import check, rel_rms, same_bits, test

NK, NV, SEQUENCES, SLOTS = 1, 2, 5, 11


class Requests:
    """Sequences whose states live in slots of one pool, and what each comes to by itself."""

    def __init__(self, context, seed):
        self.context, self.random = context, random.Random(seed)
        self.pool = make_pool(SLOTS, NV, context.device)
        self.slots = self.random.sample(range(SLOTS), SEQUENCES)
        self.alone = [context.randn(1, NV, DIM, DIM) * 0.3 for _ in range(SEQUENCES)]
        for slot, state in zip(self.slots, self.alone):
            self.states()[slot] = state.flatten()

    def states(self):
        return self.pool[:, :NV * DIM * DIM]

    def move(self):
        """Every sequence to another slot; what it leaves is garbage."""
        kept = self.states()[self.slots].clone()
        self.states().fill_(float("nan"))
        self.slots = self.random.sample(range(SLOTS), SEQUENCES)
        self.states()[self.slots] = kept

    def call(self, ops, rows, lens, varlen):
        """One call over the sequences `rows`; each must come to what it comes to alone."""
        problem = Problem(self.context, lens, NK, NV, varlen=varlen, table=True)
        problem.place(self.pool, [self.slots[s] for s in rows])
        out, states = problem.run(ops, reset=False)
        for b, s in enumerate(rows):
            solo = problem.solo(b)
            solo.h0.copy_(self.alone[s])
            solo_out, self.alone[s] = solo.run(ops)
            mine = out[problem.offsets[b]:problem.offsets[b + 1]]
            check(same_bits(mine, solo_out), f"output of sequence {s} ({lens[b]} tokens) differs from its own run")
            check(same_bits(states[b:b + 1], self.alone[s]), f"state of sequence {s} differs from its own run")

    def check_slots(self):
        for s, slot in enumerate(self.slots):
            check(same_bits(self.states()[slot], self.alone[s].flatten()), f"slot of sequence {s}")


@test
def slots(context):
    """Calls over one pool: the batch's order and lengths change, states move between slots or stay, some sit out;
    unowned slots and the gaps keep their bytes (Problem.state() checks that)."""
    calls = 2 if context.quick else 8
    for name, ops in routes(context):
        for varlen in (True, False):
            requests = Requests(context, calls + varlen)
            for call in range(calls):
                if call % 3 == 2 or call == 1:
                    requests.move()
                rows = requests.random.sample(range(SEQUENCES), 4)
                if varlen:
                    lens = [requests.random.choice((0, 1, 63, 64, 65, 130, 200)) for _ in rows]
                else:
                    lens = [requests.random.choice((1, 64, 70, 129))] * 4
                requests.call(ops, rows, lens, varlen)
            requests.check_slots()
        context.row(route=name, calls=2 * calls)


@test
def reused_slot(context):
    """A slot keeps what a request leaves in it: the next one reads that, unless the caller zeroes it first."""
    for name, ops in routes(context):
        left = Problem(context, [100], NK, NV, table=True)
        left.run(ops)
        stale = left.state()
        for zeroed in (True, False):
            fresh = Problem(context, [70], NK, NV, table=True)
            fresh.place(left.pool, left.slots)
            left.pool[left.slots, :stale[0].numel()] = 0.0 if zeroed else stale.flatten(1)
            out, state = fresh.run(ops, reset=False)
            want = fresh.solo(0)
            want.h0.copy_(torch.zeros_like(stale) if zeroed else stale)
            check(all(map(same_bits, want.run(ops), (out, state))), f"{name}: zeroed {zeroed}")


# Bounds of a whole route. The last chunk's error is at most three times the median chunk's, the bound of a state spine;
# errors stay under those of FLA's kernels against the same recurrence; the Hopper route's are at most one and a half
# times the parents'.
DRIFT, FLA_OUTPUT, FLA_STATE, TWINS = 3.0, 3.6e-3, 2.8e-3, 1.5


def per_chunk(value, reference):
    """Relative RMS error of each chunk; the values' first axis is the chunk's."""
    value, reference = value.double().flatten(1), reference.double().flatten(1)
    return ((value - reference).norm(dim=1) / reference.norm(dim=1)).tolist()


@test
def drift(context):
    """32k tokens through a whole route, against the recurrence."""
    tokens = 256 if context.quick else 32768
    problem = Problem(context, [tokens], 1, 2)
    out64, h64, before = problem.recurrence(snapshots=True)
    found = {}
    for name, ops in routes(context):
        if name not in ("hopper", "pipe"):
            continue
        out, h = problem.run(ops)
        output = per_chunk(out.view(-1, CHUNK, problem.nv * DIM), out64.view(-1, CHUNK, problem.nv * DIM))
        states = per_chunk(problem.s.view(len(before), -1), torch.stack(before).view(len(before), -1))[1:]
        found[name] = rel_rms(out, out64), rel_rms(h, h64)
        for what, errors in (("output", output), ("S", states)):
            median = statistics.median(errors)
            context.row(route="gb10" if name == "pipe" else name, chunks=len(errors), what=what, median=median,
                        last=errors[-1], worst=max(errors), all_output=found[name][0], final_state=found[name][1])
            check(errors[-1] <= DRIFT * median, f"{name} drifts: {what} {errors[-1]:.2e}, median {median:.2e}")
        check(found[name][0] < FLA_OUTPUT and found[name][1] < FLA_STATE, f"{name}: {found[name]}")
    if len(found) == 2:
        for mine, parents in zip(found["hopper"], found["pipe"]):
            check(mine <= TWINS * parents, f"the twins' {mine:.2e} against the parents' {parents:.2e}")
