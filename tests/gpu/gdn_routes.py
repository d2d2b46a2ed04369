"""The GDN launcher's routes against the f64 token recurrence, and what must hold to the byte."""
import torch

import kpk
from gdn_ops import DIM, KERNELS, ROUTES, SCALAR, Gdn, Problem, entries
from harness import Skip, bits, check, rel_rms, same_bits, test

LENS = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000]
MIXES = [[0, 64], [64, 0, 64], [0, 0, 1], [65, 0, 63], [1, 2, 15, 16, 17], [130, 64, 0], [200, 1, 129, 0, 64]]
EXPECTED = {  # the entries that each route must take over an image that ships everything
    "hopper": ("recompute_wu_registers", "chunk_delta_h_tcfuse_x2_v32", "chunk_fwd_o_persistent"),
    "pipe": ("recompute_wu", "chunk_delta_h_pipe", "chunk_fwd_o_mma8"),
    "vfused": ("recompute_wu", "chunk_delta_h_vfused", "chunk_fwd_o_mma8"),
    "vtile": ("recompute_wu", "chunk_delta_h_vtile", "chunk_fwd_o_mma8"),
    "tma": ("recompute_wu", "chunk_delta_h_tma", "chunk_fwd_o_mma8"),
    "tc_vblock": ("recompute_wu", "chunk_delta_h_tc_vblock", "chunk_fwd_o_mma8"),
    "ksplit": ("recompute_wu", "chunk_delta_h_ksplit", "chunk_fwd_o_mma8"),
    "x2_parents": ("recompute_wu", "chunk_delta_h_tcfuse_x2_v32", "chunk_fwd_o"),
}
OUTPUT_LIMIT, STATE_LIMIT = 6e-3, 4e-3  # of any route against the recurrence; FLA's: 3.6e-3, 2.8e-3


def ships_all(context):
    return all(context.image.resolve(*kernel) is not None for kernel in KERNELS.values())


def routes(context):
    """(name, bound launcher) of each route that the image can take whole: all, if it ships every kernel."""
    bound, lines = [], []
    for name in ROUTES:
        ops = Gdn(context.image, name)
        problem = Problem(context, [1], 1, 1)
        try:
            ops.prefill(problem.args())
        except kpk.Failed as refusal:
            lines.append(f"{name}: {refusal}")
            continue
        if entries(ops.route) == EXPECTED[name]:
            bound.append((name, ops))
        else:
            lines.append(f"{name}: {ops.line()}")
    check(not (ships_all(context) and lines), "; ".join(lines))
    if not bound:
        raise Skip("the image ships no GDN kernels")
    return bound


def agree(context, problem, label, bound, limits=(OUTPUT_LIMIT, STATE_LIMIT), rows=True):
    """All routes against the recurrence; the byte classes; returns the errors by route."""
    out64, h64, _ = problem.recurrence()
    results, errors = {}, {}
    for name, ops in bound:
        out, h = problem.run(ops)
        results[name] = out, h
        check(bool(torch.isfinite(out).all()) and bool(torch.isfinite(h).all()), f"{label} {name}: not finite")
        check(bool((bits(problem.out[problem.tokens:]) == -1).all()), f"{label} {name}: rows past the end written")
        errors[name] = rel_rms(out, out64), rel_rms(h, h64)
        if rows:
            context.row(case=label, route=name, output=errors[name][0], state=errors[name][1])
        check(errors[name][0] <= limits[0] and errors[name][1] <= limits[1], f"{label} {name}: {errors[name]}")
        for b, n in enumerate(problem.lens):
            check(n > 0 or same_bits(h[b], problem.h0[b]), f"{label} {name}: an empty sequence's state changed")
    for name in ("vfused", "tma", "ksplit"):
        if name in results and "pipe" in results and not (name == "tma" and problem.varlen):
            check(all(map(same_bits, results[name], results["pipe"])), f"{label}: {name} differs from pipe")
    return errors


@test
def lengths(context):
    bound = routes(context)
    for n in (1, 65) if context.quick else LENS:
        for batch, table in ((1, False), (2, True)):
            problem = Problem(context, [n] * batch, 1, 2, table=table)
            agree(context, problem, f"{batch} x {n}", bound, rows=n == 1000)


@test
def long_sequence(context):
    if context.quick:
        raise Skip("long")
    problem = Problem(context, [4096], 16, 32)
    errors = agree(context, problem, "4096 nk=16 nv=32", routes(context))
    if "hopper" in errors and "pipe" in errors:
        for mine, parent in zip(errors["hopper"], errors["pipe"]):
            check(mine <= 1.5 * parent, f"the twins' {mine:.2e} against the parents' {parent:.2e}")


@test
def varlen(context):
    """Empty sequences first, in the middle and last; each sequence equals its solo run."""
    bound = routes(context)
    for lens in MIXES[3:4] if context.quick else MIXES:
        for table in (False, True):
            problem = Problem(context, lens, 1, 3, varlen=True, table=table, tail=5)
            agree(context, problem, str(lens), bound, rows=False)
            for name, ops in bound:
                out, h = problem.run(ops)
                for b, n in enumerate(lens):
                    if n == 0:
                        continue
                    solo_out, solo_h = problem.solo(b).run(ops)
                    mine = out[problem.offsets[b]:problem.offsets[b + 1]]
                    # _tma refuses varlen: its solo run has the bits of _pipe
                    check(same_bits(mine, solo_out) and same_bits(h[b], solo_h[0]),
                          f"{lens} {name}: sequence {b} differs from its solo run")


@test
def heads(context):
    bound = routes(context)
    for nk, nv in ((1, 1), (2, 2), (2, 4), (1, 3), (3, 9)):
        agree(context, Problem(context, [130], nk, nv), f"nk={nk} nv={nv}", bound, rows=False)


@test
def extreme_gates(context):
    bound = routes(context)
    cases = [1.0, 0.999, 1e-3, 1e-12, 1e-30, 0.0, [1.0, 1e-6], (1.0, 1e-6), [1.0, 0.999, 1e-3, 1e-12, 1e-30, 0.0]]
    for gates in cases[-2:] if context.quick else cases:
        for beta in (None, 0.0, 1e-4, 1.0):
            problem = Problem(context, [130], 1, 2, gates=gates, beta=beta)
            agree(context, problem, f"gates {gates} beta {beta}", bound, rows=beta is None)
    for gates in (1e-12, 1e-30, 0.0):  # one whole chunk among others
        problem = Problem(context, [230], 1, 2)
        problem.gb[64:128, :problem.nv] = gates
        agree(context, problem, f"gates {gates} in chunk 1", bound, rows=False)


@test
def gate_one(context):
    """Gates of exactly 1 leave the plain delta rule, computed here without any gate."""
    problem = Problem(context, [200], 1, 2, gates=1.0)
    q, k, v, _, beta = problem.sequence64(0)
    s, out64 = problem.h0[0].double(), torch.empty_like(v)
    for t in range(len(v)):
        s = s + k[t, :, :, None] * (beta[t, :, None] * (v[t] - torch.einsum("hk,hkv->hv", k[t], s)))[:, None]
        out64[t] = torch.einsum("hk,hkv->hv", q[t], s) / DIM ** 0.5
    for name, ops in routes(context):
        out, h = problem.run(ops)
        errors = rel_rms(out, out64), rel_rms(h[0], s)
        check(errors[0] <= OUTPUT_LIMIT and errors[1] <= STATE_LIMIT, f"{name}: {errors}")


@test
def initial_states(context):
    """States of one axis only show a transposition; zeros are a fresh sequence."""
    bound = routes(context)
    for state in ("ramps", "zeros"):
        problem = Problem(context, [100, 100], 1, 2, state=state, table=True)
        agree(context, problem, state, bound, rows=False)


@test
def segments(context):
    """Split at a multiple of 64, the second run takes the first one's state: all bytes equal."""
    for name, ops in routes(context):
        whole = Problem(context, [64 * 5 + 7], 1, 2)
        out, h = whole.run(ops)
        for cut in (64, 256):
            parts = Problem(context, [cut, whole.tokens - cut], 1, 2, varlen=True)
            parts.row.copy_(whole.row)
            parts.gb.copy_(whole.gb)
            first = parts.solo(0)
            first.h0.copy_(whole.h0)
            out1, h1 = first.run(ops)
            second = parts.solo(1)
            second.h0.copy_(h1)
            out2, h2 = second.run(ops)
            check(same_bits(torch.cat((out1, out2)), out) and same_bits(h2, h), f"{name} cut at {cut}")


@test
def repeats(context):
    """The same call again: the same bytes, also with other calls between."""
    times = 3 if context.quick else 200
    for name, ops in routes(context):
        problem = Problem(context, [65, 300, 64], 2, 4, varlen=True) if name != "tma" else Problem(context, [300], 2, 4)
        others = [Problem(context, [n], 2, 4) for n in (1, 77, 640, 2000)]
        want = problem.run(ops)
        for i in range(times):
            if i % 7 == 0:
                ops.prefill(others[i // 7 % len(others)].args())
            check(all(map(same_bits, problem.run(ops), want)), f"{name}: run {i} differs")


@test
def unaligned(context):
    """Rows that 16-byte loads cannot take go to the scalar kernels, with their bits; a whole 16 bytes change nothing."""
    if not ships_all(context):
        raise Skip("the image lacks kernels of these routes")
    hopper, parents = Gdn(context.image), Gdn(context.image, {"METRALE_GDN_PREFILL_TC": "0", "METRALE_GDN_PIPE": "0",
                                                             "METRALE_NO_GDN_FWD_O_MMA8": "1"})
    scalar = ("recompute_wu", "chunk_delta_h_vfused", "chunk_fwd_o")
    for shift, pad in ((2, 0), (8, 0), (0, 1), (0, 4), (6, 3), (16, 0), (48, 8)):
        problem = Problem(context, [130, 130], 1, 2, shift=shift, pad=pad)
        vector = shift % 16 == 0 and pad % 8 == 0
        out, h = problem.run(hopper)
        check(entries(hopper.route) == (EXPECTED["hopper"] if vector else scalar),
              f"shift {shift} pad {pad}: {hopper.line()}")
        aligned = Problem(context, [130, 130], 1, 2)
        aligned.row.copy_(problem.row[:, :aligned.stride])
        aligned.gb.copy_(problem.gb)
        aligned.h0.copy_(problem.h0)
        check(all(map(same_bits, aligned.run(hopper if vector else parents), (out, h))),
              f"shift {shift} pad {pad}: other bits")
        if not vector:
            context.note(hopper.line())


def apart(problem, name, shift, stride):
    """query, key or value in a buffer of its own, `shift` bytes past an aligned address, rows `stride` apart; what
    changes in the arguments. A stride belongs to query and key together, so those keep the problem's."""
    at = ("query", "key", "value").index(name)
    source = problem.qkv()[at].flatten(1)
    buffer = torch.full((problem.tokens * stride + 64,), float("nan"), dtype=torch.bfloat16, device=source.device)
    rows = buffer[shift // 2:shift // 2 + problem.tokens * stride].view(problem.tokens, stride)
    rows[:, :source.shape[1]] = source
    changes = {name: rows.data_ptr()}
    if name == "value":
        changes["v_stride"] = stride
    return buffer, changes


ALIGN_16, ALIGN_4 = b"value or v_stride is not 16-byte aligned", b"value or v_stride is not 4-byte aligned"
KEY, QUERY = b"key is not 16-byte aligned", b"query is not 16-byte aligned"
APART = [  # name, shift, elements added to v_stride, what loses its 16-byte loads, reasons by field of the route
    ("value", 0, 0, "", {}),
    ("value", 4, 0, "value4", {"wu_registers": ALIGN_16}),
    ("value", 8, 0, "value4", {"wu_registers": ALIGN_16}),
    ("value", 0, 2, "value4", {"wu_registers": ALIGN_16}),
    ("value", 2, 0, "value", {"wu_registers": ALIGN_4, "wu_hopper": ALIGN_4}),
    ("value", 6, 2, "value", {"wu_registers": ALIGN_4, "wu_hopper": ALIGN_4}),
    ("value", 0, 1, "value", {"wu_registers": ALIGN_4, "wu_hopper": ALIGN_4}),
    ("query", 2, 0, "query", {n: QUERY for n in ("fwd_o_persistent", "fwd_o_hopper", "mma8")}),
    ("query", 8, 0, "query", {n: QUERY for n in ("fwd_o_persistent", "fwd_o_hopper", "mma8")}),
    ("key", 2, 0, "key", {n: KEY for n in ("wu_registers", "wu_hopper", "x2_quarters", "x2_halves", "tcfuse_x2",
                                           "fused", "fwd_o_persistent", "fwd_o_hopper", "mma8")}),
    ("key", 8, 0, "key", {n: KEY for n in ("wu_registers", "wu_hopper", "x2_quarters", "x2_halves", "tcfuse_x2",
                                           "fused", "fwd_o_persistent", "fwd_o_hopper", "mma8")}),
]
STAGES = {  # what runs instead, of kernel 1, spine and kernel 3: names of gdn_ops.KERNELS; None: what runs otherwise
    "": (None, None, None), "value4": ("wu_hopper", None, None), "value": ("wu", None, None),
    "query": (None, None, "fwd_o"), "key": ("wu", "vfused", "fwd_o"),
}
SHORT = {entry.removeprefix("gated_delta_rule_"): name for name, (_, entry) in KERNELS.items()}


@test
def misaligned_alone(context):
    """query, key or value misaligned by itself: only the kernels that load it so change, and the answer is that of
    these kernels over aligned inputs, to the byte."""
    if not ships_all(context):
        raise Skip("the image lacks kernels of these routes")
    parents = {"METRALE_GDN_PREFILL_TC": "0"}
    for route, ops in (("hopper", Gdn(context.image)), ("gb10", Gdn(context.image, parents))):
        problem = Problem(context, [130, 130], 1, 2)
        problem.run(ops)
        usual = [SHORT[entry] for entry in entries(ops.route)]
        for name, shift, pad, lost, reasons in APART:
            label = f"{route}: {name} {shift} bytes off, stride + {pad}"
            if route == "hopper" or lost in ("query", "key"):
                want = [other or mine for other, mine in zip(STAGES[lost], usual)]
            else:
                want = usual  # the parent of kernel 1 takes any value
            buffer, changes = apart(problem, name, shift, problem.stride + pad)
            problem.reset()
            ops.prefill(problem.args(**changes))
            del buffer
            check([SHORT[entry] for entry in entries(ops.route)] == want, f"{label}: {ops.line()}")
            for field, reason in reasons.items():
                if route == "hopper" or field in ("fused", "mma8"):  # what only the lever asks for keeps its reason
                    check(getattr(ops.route, field) == reason, f"{label}: {field}: {getattr(ops.route, field)}")
                    check(reason.decode() in ops.line(), f"{label}: {ops.line()}")
            got = problem.out.clone(), problem.state()
            problem.reset()
            for stage in want:
                problem.run_stage(stage)
            check(all(map(same_bits, got, (problem.out, problem.state()))), f"{label}: other bits")
            context.row(route=route, misaligned=f"{name} +{shift} B, stride +{pad}", runs=" ".join(want))


@test
def refusals(context):
    """What the launcher refuses before it launches anything."""
    ops = routes(context)[0][1]
    problem = Problem(context, [65, 65], 1, 2)
    for changes, word in (
            ({"h_state": problem.h.data_ptr() + 8}, "h_state="), ({"output": problem.out.data_ptr() + 2}, "output="),
            ({"w": problem.w.data_ptr() + 8}, "w="), ({"num_chunks": 3}, "num_chunks=3 must be 2"),
            ({"nk": 3, "nv": 4}, "multiple of nk"), ({"gc_bytes": 8}, "scratch gc"),
            ({"k_dim": 64}, "k_dim=64"), ({"cu_seqlens": problem.cu.data_ptr()}, "is_varlen is false")):
        problem.reset()
        try:
            ops.prefill(problem.args(**changes))
        except kpk.Failed as refusal:
            check(word in str(refusal), f"{changes}: '{refusal}'")
        else:
            check(False, f"{changes} was accepted")
        check(bool((bits(problem.out) == -1).all()), f"{changes}: something was written")
    for changes in ({"batch": 0}, {"seq_len": 0, "num_chunks": 0}):
        problem.reset()
        ops.prefill(problem.args(**changes))
        check(ops.line().endswith("nothing to launch") and same_bits(problem.h, problem.h0), str(changes))


@test
def many_blocks(context):
    """More than 65,535 blocks: the first and the last sequence equal their solo runs."""
    if context.quick:
        raise Skip("large")
    problem = Problem(context, [2049] * 32, 2, 64)
    check(problem.blocks > 65535, "not many")
    for name, ops in routes(context):
        if name not in ("hopper", "pipe", "tma"):
            continue
        out, h = problem.run(ops)
        for b in (0, 31):
            solo_out, solo_h = problem.solo(b).run(ops)
            mine = out[problem.offsets[b]:problem.offsets[b + 1]]
            check(same_bits(mine, solo_out) and same_bits(h[b], solo_h[0]), f"{name}: sequence {b}")
        check(bool(torch.isfinite(out).all()), f"{name}: not finite")


@test
def profile_lines(context):
    ops = Gdn(context.image)
    problem = Problem(context, [100], 1, 2)
    problem.run(ops)
    ops.prefill(problem.args(profile=True))
    text = [line for _, line in ops.messages if "SSM prefill" in line]
    for label, line in zip(("gdn_fla_recompute_wu", "gdn_fla_chunk_delta_h", "gdn_fla_chunk_fwd_o"), text):
        check(line.startswith(f"  SSM prefill [{label}] N=100: ") and line.endswith("µs"), line)
    check(len(text) == 3, str(ops.messages))


@test
def levers_warn(context):
    """A lever that asks for what cannot run gets the reference's warning."""
    ops = Gdn(context.image, {"METRALE_GDN_TMA": "1"})
    problem = Problem(context, [64, 64], 1, 2)
    problem.run(ops)
    check(any("METRALE_GDN_TMA=1 but the TMA spine is NOT running: METRALE_GDN_PREFILL_TC is active and takes "
              "precedence" in text for _, text in ops.messages), str(ops.messages))
    context.note(str(ops.messages))


SPLIT = {"x2_quarters": "_tcfuse_x2 by quarters of v", "x2_halves": "_tcfuse_x2 by halves of v"}
LOST = {  # by the end of an image's name: fields of the route, and what its line calls them
    "no_quarters": {"x2_quarters": "_tcfuse_x2 by quarters of v"},
    "no_split": SPLIT,
    "no_registers": {"wu_registers": "recompute_wu_registers"},
    "no_tc": {**SPLIT, "tcfuse_x2": "_tcfuse_x2"},
    "no_wu": {"wu_registers": "recompute_wu_registers", "wu_hopper": "recompute_wu_hopper"},
    "no_persistent": {"fwd_o_persistent": "chunk_fwd_o_persistent"},
    "no_fwd_o": {"fwd_o_persistent": "chunk_fwd_o_persistent", "fwd_o_hopper": "chunk_fwd_o_hopper"},
    "no_twins": {"wu_hopper": "recompute_wu_hopper", "fwd_o_hopper": "chunk_fwd_o_hopper"},
    "sm90_no_mma8": {"mma8": "chunk_fwd_o_mma8"},
    "no_twins_mma8": {"wu_hopper": "recompute_wu_hopper", "fwd_o_hopper": "chunk_fwd_o_hopper",
                      "mma8": "chunk_fwd_o_mma8"},
    "no_twins_tc": {**SPLIT, "tcfuse_x2": "_tcfuse_x2",
                    "wu_hopper": "recompute_wu_hopper", "fwd_o_hopper": "chunk_fwd_o_hopper"},
}


@test
def mma8_refusals(context):
    """Whatever keeps mma8 from running is in the route and in its line."""
    if context.image.resolve(*KERNELS["mma8"]) is None:
        raise Skip("the image does not ship mma8")
    problem = Problem(context, [65], 1, 2)
    for levers, changes, reason in (
            (SCALAR, {}, None),
            ({**SCALAR, "METRALE_NO_GDN_FWD_O_MMA8": ""}, {}, "METRALE_NO_GDN_FWD_O_MMA8 is set"),
            (SCALAR, {"query": problem.buffer.data_ptr() + 2}, "query is not 16-byte aligned")):
        ops = Gdn(context.image, levers)
        ops.prefill(problem.args(**changes))
        check(ops.route.mma8 == (reason and reason.encode()), f"{levers} {changes}: {ops.route.mma8}")
        said = f"not gated_delta_rule_chunk_fwd_o_mma8: {reason}" in ops.line()
        check(said == (reason is not None), f"{levers} {changes}: {ops.line()}")


@test
def wrong_device(context):
    """An image for another device is refused, both sides named."""
    path = kpk.find("gb10.kpk")
    if path is None:
        raise Skip("no gb10.kpk beside the tests: run 'make gpu-bundle'")
    try:
        kpk.Image(path).close()
    except kpk.Failed as refusal:
        check("sm_121a" in str(refusal) and "9.0" in str(refusal), str(refusal))
        context.note(str(refusal))
    else:
        check(False, "an sm_121a image was bound to this device")


@test
def peer(context):
    """FLA's kernels against the recurrence too, for no peer is an oracle: right, and further from it than ours."""
    if context.quick:
        raise Skip("long")
    try:
        from gdn import Fla  # tests/bench
        import fla
    except ImportError:
        raise Skip("no fla-core here")
    for lens, varlen in (([2048], False), ([700, 65, 1283], True)):
        problem = Problem(context, lens, 16, 32, varlen=varlen)
        out64, h64, _ = problem.recurrence()
        out, h = Fla(problem)()
        its = rel_rms(out, out64), rel_rms(h, h64)
        context.row(case=str(lens), route=f"FLA {fla.__version__}", output=its[0], state=its[1])
        check(its[0] < 1.25 * 3.6e-3 and its[1] < 1.25 * 2.8e-3, f"FLA {lens}: {its}")
        for name, ops in routes(context):
            if name in ("hopper", "pipe"):
                mine = tuple(map(rel_rms, problem.run(ops), (out64, h64)))
                context.row(case=str(lens), route=name, output=mine[0], state=mine[1])
                check(mine[0] < its[0] and mine[1] < its[1], f"{name} {lens}: {mine} against FLA's {its}")


@test
def fallback(context):
    """Images that lack modules: the launcher answers right by what is left, and says why, or refuses."""
    h, p = EXPECTED["hopper"], EXPECTED["pipe"]
    cases = {
        "gb10_sm90": p, "gb10_sm90_no_mma8": (p[0], p[1], "chunk_fwd_o"), "gb10_sm90_no_fla": None,
        "hopper_no_mma8": h, "hopper_no_quarters": (h[0], "chunk_delta_h_tcfuse_x2_v64", h[2]),
        "hopper_no_split": (h[0], "chunk_delta_h_tcfuse_x2", h[2]),
        "hopper_no_registers": ("recompute_wu_hopper", h[1], h[2]),
        "hopper_no_persistent": (h[0], h[1], "chunk_fwd_o_hopper"),
        "hopper_no_tc": (h[0], p[1], h[2]), "hopper_no_wu": (p[0], h[1], h[2]),
        "hopper_no_fwd_o": (h[0], h[1], p[2]), "hopper_no_twins": (p[0], h[1], p[2]),
        "hopper_no_twins_mma8": (p[0], h[1], "chunk_fwd_o"), "hopper_no_twins_tc": p, "hopper_no_fla": h,
        "hopper_no_fla_tc": None,
    }
    paths = {name: kpk.find(f"variants/{name}.kpk") for name in cases}
    if None in paths.values():
        raise Skip("no variants beside the tests: gdn_variants.py packs them")
    problem = Problem(context, [130, 65, 0], 2, 4, varlen=True)
    out64, h64, _ = problem.recurrence()
    for name, want in cases.items():
        image = kpk.Image(paths[name])
        ops = Gdn(image, {})
        if want is None:
            try:
                problem.run(ops)
            except kpk.Failed as refusal:
                check("the image does not ship 'gated_delta_rule_fla:" in str(refusal), f"{name}: {refusal}")
                context.note(f"{name}: {refusal}")
            else:
                check(False, f"{name}: ran without a kernel")
        else:
            out, state = problem.run(ops)
            check(entries(ops.route) == want, f"{name}: {ops.line()}")
            check(rel_rms(out, out64) < OUTPUT_LIMIT and rel_rms(state, h64) < STATE_LIMIT, f"{name}: wrong answer")
            for ending, fields in LOST.items():
                for field, label in fields.items() if name.endswith(ending) else ():
                    check(getattr(ops.route, field) == b"kernel absent from this image", f"{name}: {field}")
                    check(f"{label}: kernel absent from this image" in ops.line(), f"{name}: {ops.line()}")
            context.note(f"{name}: {ops.line()}")
        if name == "gb10_sm90":  # it ships the twins, off by default
            ops = Gdn(image, {"METRALE_GDN_PREFILL_TC": "1"})
            check(all(map(same_bits, problem.run(ops), problem.run(Gdn(context.image)))), f"{name}: other bits")
            first = ("recompute_wu_hopper", "chunk_delta_h_tcfuse_x2", "chunk_fwd_o_hopper")
            check(entries(ops.route) == first, f"{name}: {ops.line()}")
        torch.cuda.synchronize()
        image.close()
