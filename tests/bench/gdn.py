#!/usr/bin/env python3
"""Speed of the GDN routes and kernels, with their f64 error, beside FLA's Triton kernels and the floors.

    gdn.py [--rounds N] [--tokens T,T] [--heads NV,NV] [--no-fla] [--no-varlen] [--no-error] [--default] [--warm-fla N]

nk = 16. One process; every candidate is one captured graph, replayed in turns; medians in microseconds. FLA is fla-core's
chunk_gated_delta_rule; its layout copies are made outside the timing, and it is tuned before (gdn_fla.py). --warm-fla
measures nothing: it compiles what that tuning needs in N processes, for a later run with the same TRITON_CACHE_DIR.
--default measures the default route and its kernels alone. Ends with the tables of RESULTS.md and with what must hold;
exits 1 when something does not.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "gpu"), HERE]

import torch

import gdn_fla
import harness
import kpk
from gdn_fla import NK, Fla
from gdn_ops import KERNELS, ROUTES, Gdn, Problem, entries

TOKENS = [64, 512, 2048, 4096, 8192, 32768]
COPY_BYTES_PER_US = 4.3e6  # one H200, device-to-device copy, read plus written
FLOPS_PER_US = 790e6
TENSOR = ("hopper", "x2_parents", "tc_vblock")  # routes whose spine is on the tensor cores


def floors(problem):
    """Microseconds that three launches and one fused launch must move, and that two-limb products take."""
    chunks, states = problem.blocks, problem.batch * problem.nv * 131072
    three = chunks * 197888 + chunks // problem.nv * NK * 65536 + states
    fused = chunks * 33280 + chunks // problem.nv * NK * 32768 + states
    flops = chunks * (9.953e6 + 4.19e6)
    return three / COPY_BYTES_PER_US, fused / COPY_BYTES_PER_US, flops / FLOPS_PER_US


class Case:
    """One shape: its candidates, their times and errors, and the floors."""

    def __init__(self, context, label, problem, options):
        self.label, self.problem, self.fla = label, problem, None if options.no_fla else Fla(problem)
        self.routes = {name: Gdn(context.image, name) for name in (["hopper"] if options.default else ROUTES)
                       if not (name == "tma" and problem.varlen)}
        self.floors = floors(problem)
        self.errors = {} if options.no_error else self.measure_errors()
        kernels = [name for name in KERNELS if not (name == "tma" and problem.varlen)]
        if options.default:
            self.run("hopper")
            kernels = [name for name in kernels
                       if KERNELS[name][1].removeprefix("gated_delta_rule_") in entries(self.routes["hopper"].route)]
        calls = {name: lambda name=name: self.run(name) for name in self.routes}
        if self.fla:
            calls["FLA"] = self.fla
        calls.update({f" {name}": lambda name=name: problem.run_stage(name) for name in kernels})
        problem.reset()
        self.run("hopper")  # leaves valid scratch to the single kernels
        self.times = harness.time_interleaved({name: [call] for name, call in calls.items()}, rounds=options.rounds)

    def run(self, name):
        self.routes[name].prefill(self.problem.args())

    def measure_errors(self):
        """{route: (output, state)} relative to the f64 recurrence."""
        problem, found = self.problem, {}
        out64, h64, _ = problem.recurrence()
        for name in self.routes:
            problem.reset()
            self.run(name)
            found[name] = (harness.rel_rms(problem.out[:problem.tokens], out64),
                           harness.rel_rms(problem.state(), h64))
        if self.fla:
            out, h = self.fla()
            found["FLA"] = harness.rel_rms(out, out64), harness.rel_rms(h, h64)
        return found

    def summary(self):
        """The default route beside the peer and the floors."""
        ours, its = self.times["hopper"], self.times.get("FLA")
        row = {"case": self.label, "hopper us": ours}
        if its:
            row.update({"FLA us": its, "hopper / FLA": ours / its})
        row.update({"floor: 3 launches": self.floors[0], "1 launch": self.floors[1], "products": self.floors[2],
                    "hopper / floor": ours / max(self.floors[0], self.floors[2])})
        for name in self.errors and ("hopper", "FLA"):
            if name in self.errors:
                row.update({f"output error {name}": self.errors[name][0], f"state error {name}": self.errors[name][1]})
        return row

    def faults(self):
        """What must hold of the times and errors and does not."""
        times, errors = self.times, self.errors
        if " pipe" in times and " vfused" in times and times[" pipe"] > times[" vfused"]:
            yield f"_pipe takes {times[' pipe']:.1f} us, _vfused {times[' vfused']:.1f}"
        scalar = [name for name in self.routes if name not in TENSOR]
        for name in TENSOR:
            for other in scalar if name in times else ():
                if times[name] >= times[other]:
                    yield f"{name} takes {times[name]:.1f} us, {other} {times[other]:.1f}"
        for name in self.routes if "FLA" in errors else ():
            if any(mine >= its for mine, its in zip(errors[name], errors["FLA"])):
                yield f"{name}'s errors {errors[name]} are not under FLA's {errors['FLA']}"


def cell(value):
    if not isinstance(value, float):
        return str(value)
    if value < 0.1:
        return f"{value:.2e}".replace("e-0", "e-")
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def markdown(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names)] + [[cell(row.get(name, "-")) for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cases(context, options):
    for nv in map(int, options.heads.split(",")):
        for tokens in map(int, options.tokens.split(",")):
            yield f"T={tokens} nv={nv}", Problem(context, [tokens], NK, nv, state="zeros")
    if not options.no_varlen:
        yield "8 x 4096 varlen nv=32", Problem(context, gdn_fla.VARLEN, NK, 32, varlen=True, state="zeros")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--heads", default="32,48")
    for flag in ("no-fla", "no-varlen", "no-error", "default"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--warm-fla", type=int, metavar="N")
    options = parser.parse_args()
    heads = list(map(int, options.heads.split(",")))
    if options.warm_fla:
        return 0 if gdn_fla.compile_all(options.warm_fla, heads, not options.no_varlen) else 1
    torch.zeros(1, device="cuda:0")
    context = harness.Context(kpk.Image(kpk.find("hopper.kpk")))
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, medians of {options.rounds} rounds")
    if not options.no_fla:
        gdn_fla.tune(context, heads, not options.no_varlen)
    measured, faults = [], []
    for label, problem in cases(context, options):
        case = Case(context, label, problem, options)
        del case.problem, case.fla  # the next case's memory
        torch.cuda.empty_cache()
        measured.append(case)
        print(f"{label}: " + ", ".join(f"{name.strip()} {cell(time)}" for name, time in case.times.items()), flush=True)
        faults += [f"{label}: {fault}" for fault in case.faults()]
    print("\n" + markdown([case.summary() for case in measured]))
    for title, is_kernel in (("Routes", False), ("Kernels alone", True)):
        rows = [{"case": case.label, **{name.strip(): time for name, time in case.times.items()
                                        if name.startswith(" ") == is_kernel}} for case in measured]
        print(f"\n{title}, us:\n\n" + markdown(rows))
    print("\n" + ("\n".join(["DOES NOT HOLD:"] + faults) if faults else
                  "holds: _pipe <= _vfused, tensor-core routes faster than scalar ones, errors under FLA's"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
