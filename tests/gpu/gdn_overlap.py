"""Calls whose kernels begin before the one before them has ended: in graphs, and one call right after another."""
import ctypes as C

import torch

from gdn_ops import Gdn, Problem, entries
from harness import Skip, capture, check, same_bits, test

SPINES = "chunk_delta_h_tcfuse_x2_v32", "chunk_delta_h_tcfuse_x2_v64"  # with chunk_fwd_o_persistent, what overlaps
CASES = [dict(lens=[64], nk=16, nv=32), dict(lens=[100], nk=16, nv=32), dict(lens=[512], nk=16, nv=48), dict(lens=[1]),
         dict(lens=[8192], nk=16, nv=48), dict(lens=[300, 0, 64, 1000, 129], nk=16, nv=32, varlen=True),
         dict(lens=[0, 0, 77], nk=16, nv=48, varlen=True), dict(lens=[5000, 64, 3000], nk=16, nv=48, varlen=True)]


def overlapping(context):
    ops = Gdn(context.image)
    problem = Problem(context, [64], 16, 32)
    ops.prefill(problem.args())
    if entries(ops.route)[1] not in SPINES or entries(ops.route)[2] != "chunk_fwd_o_persistent":
        raise Skip(f"the default route's kernels do not overlap: {ops.line()}")
    return ops, problem


@test
def edges(context):
    """In a captured call the second and third kernel follow by a programmatic edge, from its let-in."""
    ops, problem = overlapping(context)
    cuda, graph, stream = C.CDLL("libcuda.so.1"), C.c_void_p(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        raw = C.c_void_p(stream.cuda_stream)
        check(cuda.cuStreamBeginCapture_v2(raw, 2) == 0, "cuStreamBeginCapture")
        ops.prefill(problem.args())
        check(cuda.cuStreamEndCapture(raw, C.byref(graph)) == 0, "cuStreamEndCapture")
    count, nodes = C.c_size_t(8), [(C.c_void_p * 8)() for _ in range(2)]
    data = ((C.c_uint8 * 8) * 8)()  # CUgraphEdgeData: from_port, to_port, type
    check(cuda.cuGraphGetEdges_v2(graph, *nodes, data, C.byref(count)) == 0, "cuGraphGetEdges")
    found = [tuple(edge)[:3] for edge in data[:count.value]]
    cuda.cuGraphDestroy(graph)
    check(found == [(1, 0, 1)] * 2, f"the edges are {found}")


@test
def back_to_back(context):
    """Two calls in one graph that share their scratch write what each writes alone, all of it, again and again."""
    ops, _ = overlapping(context)
    scratch = ("w", "u", "uc", "s", "gc")
    for case in CASES[:4] if context.quick else CASES:
        first, second = Problem(context, **case), Problem(context, **case)
        for name in scratch:
            setattr(second, name, getattr(first, name))
        alone = [problem.run(ops) for problem in (first, second)]
        left = [getattr(second, name).clone() for name in scratch]
        args = [problem.args() for problem in (first, second)]
        graph = capture([lambda x=x: ops.prefill(x) for x in args])
        for turn in range(25):
            first.reset()
            second.reset()
            graph.replay()
            for problem, (out, h) in zip((first, second), alone):
                check(same_bits(problem.out[:problem.tokens], out) and same_bits(problem.state(), h),
                      f"{case}: replay {turn} gives other bytes")
            check(all(same_bits(getattr(second, name), x) for name, x in zip(scratch, left)),
                  f"{case}: replay {turn} leaves other bytes in the scratch")
