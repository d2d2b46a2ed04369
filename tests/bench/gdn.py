#!/usr/bin/env python3
"""Speed of the GDN routes and kernels, with their f64 error, beside FLA's Triton kernels and the floors.

    gdn.py [--rounds N] [--tokens T,T] [--heads NV,NV] [--no-fla] [--no-varlen] [--no-error]

nk = 16. One process; every candidate is one captured graph, replayed in turns; medians in microseconds.
FLA is fla-core's chunk_gated_delta_rule; its layout copies are made outside the timing.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "gpu"), HERE]
os.environ.update(FLA_DISABLE_BACKEND_DISPATCH="1", FLA_FLASH_QLA="0")

import torch

import harness
import kpk
from gdn_ops import ROUTES, Gdn, Problem

NK = 16
TOKENS = [64, 512, 2048, 4096, 8192, 32768]
COPY_BYTES_PER_US = 4.3e6  # one H200, device-to-device copy, read plus written
FLOPS_PER_US = 790e6
KERNELS = ("wu", "wu_hopper", "wu_registers", "ksplit", "vfused", "pipe", "tma", "vtile", "tc_vblock", "tcfuse",
           "tcfuse_x2", "x2_v32", "x2_v64", "fwd_o", "mma8", "fwd_o_hopper")


def floors(problem):
    """Microseconds that three launches and one fused launch must move, and that two-limb products take."""
    chunks, states = problem.blocks, problem.batch * problem.nv * 131072
    three = chunks * 197888 + chunks // problem.nv * NK * 65536 + states
    fused = chunks * 33280 + chunks // problem.nv * NK * 32768 + states
    flops = chunks * (9.953e6 + 4.19e6)
    return three / COPY_BYTES_PER_US, fused / COPY_BYTES_PER_US, flops / FLOPS_PER_US


class Fla:
    """FLA's kernels over a problem's inputs."""

    def __init__(self, problem):
        from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule
        self.function = chunk_gated_delta_rule
        q, k, v = (x.contiguous()[None] for x in problem.qkv())
        gate, beta = problem.gb[:problem.tokens].split(problem.nv, 1)
        shape = (problem.batch, problem.tokens // problem.batch)
        if not problem.varlen:
            q, k, v = (x.view(*shape, *x.shape[2:]) for x in (q, k, v))
        else:
            shape = (1, problem.tokens)
        self.inputs = dict(q=q, k=k, v=v, g=gate.log().contiguous().view(*shape, -1),
                           beta=beta.contiguous().view(*shape, -1), initial_state=problem.h0,
                           output_final_state=True)
        if problem.varlen:
            self.inputs["cu_seqlens"] = problem.cu.long()

    def __call__(self):
        with torch.inference_mode():
            out, state = self.function(**self.inputs)
        return out.flatten(0, 1), state


def candidates(context, problem, options):
    """{name: call} of whole routes, and of single kernels over the scratch that a route left."""
    calls = {}
    for name in ROUTES:
        ops = Gdn(context.image, name)
        if name == "tma" and problem.varlen:
            continue
        calls[name] = lambda ops=ops: ops.prefill(problem.args())
    if not options.no_fla:
        calls["FLA"] = Fla(problem)
    for name in KERNELS:
        if not (name == "tma" and problem.varlen):
            calls[f"  {name}"] = lambda name=name: problem.run_stage(name)
    return calls


def errors(problem, calls):
    """{name: (output, state)} relative to the f64 recurrence."""
    out64, h64, _ = problem.recurrence()
    found = {}
    for name, call in calls.items():
        if name.startswith(" "):
            continue
        problem.reset()
        result = call()
        out, h = result if name == "FLA" else (problem.out[:problem.tokens], problem.state())
        found[name] = harness.rel_rms(out, out64), harness.rel_rms(h, h64)
    return found


def measure(context, label, problem, options):
    calls = candidates(context, problem, options)
    error = {} if options.no_error else errors(problem, calls)
    problem.reset()
    calls["pipe"]()  # leaves valid scratch to the single kernels
    times = harness.time_interleaved({name: [call] for name, call in calls.items()}, rounds=options.rounds)
    three, fused, flops = floors(problem)
    print(f"{label}: floors: three launches {three:.1f} us, one {fused:.1f} us, products {flops:.1f} us")
    rows = []
    for name, microseconds in times.items():
        out, state = error.get(name, ("", ""))
        rows.append({"route or kernel": name, "us": microseconds, "x FLA": microseconds / times["FLA"] if
                     "FLA" in times and not name.startswith(" ") else "", "output error": out, "state error": state})
    print("    " + harness.table(rows).replace("\n", "\n    "), flush=True)
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--heads", default="32,48")
    for flag in ("fla", "varlen", "error"):
        parser.add_argument(f"--no-{flag}", action="store_true")
    options = parser.parse_args()
    torch.zeros(1, device="cuda:0")
    context = harness.Context(kpk.Image(kpk.find("hopper.kpk")))
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, medians of {options.rounds} rounds")
    for nv in map(int, options.heads.split(",")):
        for tokens in map(int, options.tokens.split(",")):
            measure(context, f"T={tokens} nv={nv}", Problem(context, [tokens], NK, nv, state="zeros"), options)
    if not options.no_varlen:
        lens = [4096] * 8
        measure(context, "8 x 4096 varlen nv=32", Problem(context, lens, NK, 32, varlen=True, state="zeros"), options)


if __name__ == "__main__":
    main()
