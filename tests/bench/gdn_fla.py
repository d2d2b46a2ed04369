"""FLA's chunk_gated_delta_rule over the problems of tests/gpu: called, tuned, and compiled beforehand.

FLA keeps, for each number of heads and for varlen, the configurations that were fastest in its first call, whatever that
call's length: after 64 tokens those are chance, and up to 1.6 times slower for long prompts. So each is tuned by a long
prompt, tune(), before anything is timed. What that compiles takes most of two minutes in one process; compile_all() does it
in several, for a later process with the same TRITON_CACHE_DIR.
"""
import multiprocessing
import os

os.environ.update(FLA_DISABLE_BACKEND_DISPATCH="1", FLA_FLASH_QLA="0", FLA_CACHE_RESULTS="0")

import torch

import harness
from gdn_ops import Problem

NK = 16
TOKENS = 8192  # of the prompt that tunes a number of heads
VARLEN = [4096] * 8


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


def tune(context, heads, varlen):
    """Calls FLA once for each number of heads, and once for sequences of several lengths."""
    for nv in heads:
        Fla(Problem(context, [TOKENS], NK, nv, state="zeros"))()
    if varlen:
        Fla(Problem(context, VARLEN, NK, 32, varlen=True, state="zeros"))()
    torch.cuda.synchronize()


def compile_share(part, parts, heads, varlen):
    """Compiles, by one launch each, every parts-th configuration that tune() would try."""
    from triton.runtime.autotuner import Autotuner
    turn = 0

    def run(self, *args, **kwargs):
        nonlocal turn
        for config in self.configs:
            turn += 1
            if turn % parts == part:
                try:
                    self.fn.run(*args, **kwargs, **config.all_kwargs())
                except Exception as error:  # tune() passes over it too
                    print(f"{self.base_fn.__name__}, {config}: {type(error).__name__}", flush=True)

    Autotuner.run = run
    tune(harness.Context(None), heads, varlen)
    print(f"compiled every {parts}th of {turn} configurations", flush=True)


def compile_all(parts, heads, varlen):
    """compile_share in `parts` processes; whether all succeeded."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=compile_share, args=(part, parts, heads, varlen)) for part in range(parts)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return all(worker.exitcode == 0 for worker in workers)
