"""The GDN launcher and its kernels through ctypes, makers of problems, and the oracles."""
import contextlib
import ctypes as C
import os

import torch

import kpk
from harness import bits, check, same_bits

CHUNK, DIM = 64, 128
U32, U64 = C.c_uint32, C.c_uint64

KERNELS = {  # module, entry, block, dynamic shared memory
    name: (module, "gated_delta_rule_" + entry)
    for name, module, entry in (
        ("wu", "gated_delta_rule_fla", "recompute_wu"),
        ("wu_hopper", "gdn_recompute_wu_hopper", "recompute_wu_hopper"),
        ("wu_registers", "gdn_recompute_wu_registers", "recompute_wu_registers"),
        ("ksplit", "gated_delta_rule_fla", "chunk_delta_h_ksplit"),
        ("vfused", "gated_delta_rule_fla", "chunk_delta_h_vfused"),
        ("pipe", "gated_delta_rule_fla", "chunk_delta_h_pipe"),
        ("tma", "gated_delta_rule_fla", "chunk_delta_h_tma"),
        ("vtile", "gated_delta_rule_fla", "chunk_delta_h_vtile"),
        ("tc_vblock", "gated_delta_rule_fla", "chunk_delta_h_tc_vblock"),
        ("tcfuse", "gated_delta_rule_chunk_tc", "chunk_delta_h_tcfuse"),
        ("tcfuse_x2", "gated_delta_rule_chunk_tc", "chunk_delta_h_tcfuse_x2"),
        ("x2_v64", "gdn_spine_hopper", "chunk_delta_h_tcfuse_x2_v64"),
        ("x2_v32", "gdn_spine_quarters", "chunk_delta_h_tcfuse_x2_v32"),
        ("fwd_o", "gated_delta_rule_fla", "chunk_fwd_o"),
        ("mma8", "gdn_chunk_fwd_o_mma8", "chunk_fwd_o_mma8"),
        ("fwd_o_hopper", "gdn_fwd_o_hopper", "chunk_fwd_o_hopper"),
        ("fwd_o_persistent", "gdn_fwd_o_persistent", "chunk_fwd_o_persistent"),
    )
}
SAME_BITS = ("ksplit", "vfused", "pipe", "tma")  # spines of one arithmetic class
SPINES = SAME_BITS + ("vtile", "tc_vblock", "tcfuse", "tcfuse_x2", "x2_v64", "x2_v32")
FIRST = ("wu", "wu_hopper", "wu_registers")

# The environment that leads the launcher to each route, by its spine.
SCALAR = {"METRALE_GDN_PREFILL_TC": "0"}
ROUTES = {
    "hopper": {},
    "pipe": SCALAR,
    "vfused": {**SCALAR, "METRALE_GDN_PIPE": "0"},
    "vtile": {**SCALAR, "METRALE_GDN_VTILE": "1"},
    "tma": {**SCALAR, "METRALE_GDN_TMA": "1"},
    "tc_vblock": {**SCALAR, "METRALE_GDN_VTILE": "0", "METRALE_GDN_TC_VBLOCK": "1"},
    "ksplit": {**SCALAR, "METRALE_GDN_VTILE": "0"},
    "x2_parents": {"METRALE_NO_GDN_PREFILL_TC_REMNANTS": "1", "METRALE_NO_GDN_FWD_O_MMA8": ""},
}


class Desc(C.Structure):
    _fields_ = [("message", kpk.MESSAGE), ("message_user", C.c_void_p)]


class Args(C.Structure):
    _fields_ = ([(n, U64) for n in (
        "h_state", "query", "key", "value", "gate", "beta", "output", "w", "u", "s", "uc", "gc",
        "w_bytes", "u_bytes", "s_bytes", "uc_bytes", "gc_bytes")]
        + [(n, U32) for n in ("batch", "seq_len", "num_chunks", "nk", "nv", "k_dim", "v_dim",
                              "qk_stride", "v_stride", "gb_stride")]
        + [("h_state_is_table", C.c_bool), ("is_varlen", C.c_bool), ("cu_seqlens", U64),
           ("cu_chunks", U64), ("profile", C.c_bool), ("cu_seqlens_host", C.POINTER(C.c_int32)),
           ("h_state_host", C.POINTER(U64)), ("total_tokens", U64)])


class Scratch(C.Structure):
    _fields_ = [(n, U64) for n in ("w", "u", "s", "uc", "gc", "blocks")]


class Stage(C.Structure):
    _fields_ = [("kernel", C.c_int), ("module", C.c_char_p), ("entry", C.c_char_p),
                ("grid", kpk.Grid), ("block", U32), ("smem", U32)]


class Route(C.Structure):
    _fields_ = ([("wu", Stage), ("spine", Stage), ("fwd_o", Stage)]
                + [(n, C.c_char_p) for n in ("wu_registers", "wu_hopper", "x2_quarters", "x2_halves", "tcfuse_x2", "tma", "fused",
                                             "tc_vblock", "fwd_o_persistent", "fwd_o_hopper", "mma8")])


@contextlib.contextmanager
def environment(variables):
    before = {name: os.environ.pop(name) for name in list(os.environ) if "METRALE" in name}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


class Gdn:
    """A bound struct gdn, under the levers of `route` (a key of ROUTES, or variables)."""

    def __init__(self, image, route="hopper"):
        self.image = image
        kpk.load_library()
        self.lib = C.CDLL(kpk.find("lib/libkpk_ops.so"))
        self.messages = []
        self.callback = kpk.MESSAGE(lambda user, severity, text: self.messages.append((severity, text.decode())))
        self.struct = C.create_string_buffer(1024)  # struct gdn
        self.route = Route()
        with environment(ROUTES[route] if isinstance(route, str) else route):
            self.check(self.lib.gdn_bind(image.handle, C.byref(Desc(message=self.callback)), self.struct))

    def check(self, status):
        if status != 0:
            raise kpk.Failed(status, self.messages[-1][1] if self.messages else f"status {status}")

    def prefill(self, args):
        self.messages.clear()
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.gdn_prefill_fla(self.struct, C.byref(args), stream, C.byref(self.route)))
        return self.route

    def line(self):
        text = C.create_string_buffer(2048)
        self.lib.gdn_route_line(C.byref(self.route), text, len(text))
        return text.value.decode()


def entries(route):
    return tuple(stage.entry.decode().removeprefix("gated_delta_rule_")
                 for stage in (route.wu, route.spine, route.fwd_o))


def tensor_map(address, rows, columns, pitch, box=(DIM, CHUNK), swizzle=0, kind=9, size=2):
    """A CUtensorMap of bf16 rows; box: columns, rows."""
    raw = (C.c_uint8 * 192)()
    start = -C.addressof(raw) % 64
    result = C.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        C.c_void_p(C.addressof(raw) + start), kind, 2, C.c_void_p(address), (U64 * 2)(columns, rows),
        (U64 * 1)(pitch * size), (U32 * 2)(*box), (U32 * 2)(1, 1), 0, swizzle, 0, 0)
    check(result == 0, f"cuTensorMapEncodeTiled: {result}")
    return (C.c_uint8 * 128).from_buffer(raw, start)


def chunks_of(tokens):
    return (tokens + CHUNK - 1) // CHUNK


def make_gates(context, tokens, nv, kind):
    """Linear decays: "model" as the gate's formula gives them, a number, a list to draw from, or a tuple that tokens
    take in turn."""
    if kind == "model":
        a = context.randn(tokens, nv) * 2
        return torch.exp(-torch.exp(context.randn(nv) * 0.5) * torch.nn.functional.softplus(a - 2))
    if isinstance(kind, (int, float)):
        return torch.full((tokens, nv), float(kind), device=context.device)
    values = torch.tensor(kind, dtype=torch.float32, device=context.device)
    if isinstance(kind, tuple):
        return values[torch.arange(tokens, device=context.device) % len(kind)][:, None].expand(tokens, nv)
    return values[context.randint(0, len(kind), (tokens, nv))]


UNUSED = 123.0  # what a pool of states holds where no sequence's state is


def make_pool(slots, nv, device):
    """Room for states, one a row, with a gap after each."""
    return torch.full((slots, nv * DIM * DIM + 64), UNUSED, device=device)


class Problem:
    """Inputs, states and scratch of one call. lens: tokens per sequence; uniform unless varlen.

    shift: bytes by which the packed row starts past an aligned address; pad: elements added to its
    stride; tail: rows after the last sequence, NaN in the inputs and untouchable in the output.
    """

    def __init__(self, context, lens, nk=2, nv=4, varlen=False, table=False, gates="model", beta=None,
                 state="random", shift=0, pad=0, tail=0):
        device = context.device
        self.context, self.lens, self.nk, self.nv = context, list(lens), nk, nv
        self.varlen, self.table = varlen, table
        check(varlen or len(set(lens)) <= 1, "sequences of one length unless varlen")
        self.batch, self.tokens = len(lens), sum(lens)
        self.chunks = max(map(chunks_of, lens), default=0)
        offsets = [0]
        for n in lens:
            offsets.append(offsets[-1] + n)
        self.offsets = offsets
        self.cu = torch.tensor(offsets, dtype=torch.int32, device=device)
        rows = self.tokens + tail
        self.stride = (2 * nk + nv) * DIM + pad
        self.buffer = torch.full((rows * self.stride + 64,), float("nan"), dtype=torch.bfloat16, device=device)
        check(shift % 2 == 0, "shift counts bytes of whole elements")
        first = shift // 2
        self.row = self.buffer[first:first + rows * self.stride].view(rows, self.stride)
        unit = torch.nn.functional.normalize
        used = self.row[:self.tokens]
        used[:, :2 * nk * DIM] = unit(context.randn(self.tokens, 2 * nk, DIM), dim=-1).flatten(1)
        used[:, 2 * nk * DIM:(2 * nk + nv) * DIM] = context.randn(self.tokens, nv * DIM)
        self.gb = torch.full((rows, 2 * nv), float("nan"), device=device)
        self.gb[:self.tokens, :nv] = make_gates(context, self.tokens, nv, gates)
        self.gb[:self.tokens, nv:] = context.rand(self.tokens, nv) if beta is None else beta
        if state == "random":
            self.h0 = context.randn(self.batch, nv, DIM, DIM) * 0.3
        elif state == "ramps":  # k-only in even heads, v-only in odd ones
            ramp = torch.linspace(-1, 1, DIM, device=device)
            self.h0 = torch.empty(self.batch, nv, DIM, DIM, device=device)
            self.h0[:, 0::2] = ramp[:, None]
            self.h0[:, 1::2] = ramp[None, :]
        else:
            self.h0 = torch.zeros(self.batch, nv, DIM, DIM, device=device)
        self.blocks = sum(map(chunks_of, lens)) * nv
        self.allocate(rows)
        self.reset()

    def allocate(self, rows):
        device, blocks = self.context.device, max(self.blocks, 1)
        bf16 = dict(dtype=torch.bfloat16, device=device)
        self.w = torch.empty(blocks, CHUNK, DIM, **bf16)
        self.u, self.uc = torch.empty_like(self.w), torch.empty_like(self.w)
        self.s = torch.empty(blocks, DIM, DIM, **bf16)
        self.gc = torch.empty(blocks, CHUNK, device=device)
        self.out = torch.empty(rows, self.nv, DIM, **bf16)
        self.place(make_pool(2 * self.batch + 1, self.nv, device), [2 * b + 1 for b in reversed(range(self.batch))])
        self.h = torch.empty_like(self.h0)

    def place(self, pool, slots):
        """Lets the table name rows `slots` of a pool (make_pool), one a sequence."""
        self.pool, self.slots = pool, list(slots)
        self.pointers = torch.tensor([pool[i].data_ptr() for i in slots], dtype=torch.int64, device=pool.device)

    def poison_scratch(self):
        for tensor in (self.w, self.u, self.uc, self.s, self.gc, self.out):
            bits(tensor).fill_(-1)  # NaNs

    def reset(self):
        self.poison_scratch()
        self.h.copy_(self.h0)
        if self.table:
            self.pool.fill_(UNUSED)
            self.pool[self.slots, :self.h0[0].numel()] = self.h0.flatten(1)
            self.before = self.pool.clone()

    def state(self):
        """The states after a run, and a check of what lies between them."""
        if not self.table:
            return self.h.clone()
        size = self.h0[0].numel()
        states = self.pool[self.slots, :size].clone()
        self.before[self.slots, :size] = states
        check(same_bits(self.before, self.pool), "a state that no sequence of the call owns was written")
        return states.view_as(self.h0)

    def qkv(self):
        row, nk, nv = self.row[:self.tokens], self.nk, self.nv
        return (row[:, :nk * DIM].unflatten(1, (nk, DIM)), row[:, nk * DIM:2 * nk * DIM].unflatten(1, (nk, DIM)),
                row[:, 2 * nk * DIM:(2 * nk + nv) * DIM].unflatten(1, (nv, DIM)))

    def addresses(self):
        q = self.row.data_ptr() if self.tokens else self.buffer.data_ptr()
        return dict(query=q, key=q + self.nk * DIM * 2, value=q + 2 * self.nk * DIM * 2,
                    gate=self.gb.data_ptr(), beta=self.gb.data_ptr() + self.nv * 4,
                    h_state=self.pointers.data_ptr() if self.table else self.h.data_ptr(),
                    output=self.out.data_ptr(), w=self.w.data_ptr(), u=self.u.data_ptr(),
                    s=self.s.data_ptr(), uc=self.uc.data_ptr(), gc=self.gc.data_ptr())

    def args(self, **changes):
        self.host = (C.c_int32 * (self.batch + 1))(*self.offsets)
        args = Args(batch=self.batch, seq_len=0 if self.varlen or not self.lens else self.lens[0],
                    num_chunks=self.chunks, nk=self.nk, nv=self.nv, k_dim=DIM, v_dim=DIM,
                    qk_stride=self.stride, v_stride=self.stride, gb_stride=2 * self.nv,
                    h_state_is_table=self.table, is_varlen=self.varlen, total_tokens=self.tokens,
                    **self.addresses())
        if self.varlen:
            args.cu_seqlens = self.cu.data_ptr()
            args.cu_seqlens_host = C.cast(self.host, C.POINTER(C.c_int32))
        for name in ("w", "u", "s", "uc", "gc"):
            tensor = getattr(self, name)
            setattr(args, name + "_bytes", tensor.numel() * tensor.element_size())
        for name, value in changes.items():
            setattr(args, name, value)
        return args

    def run(self, ops, reset=True):
        """One call of the launcher; returns (output, states). Without reset it goes on from the states as they are."""
        if reset:
            self.reset()
        elif self.table:
            self.before = self.pool.clone()
        ops.prefill(self.args())
        return self.out[:self.tokens].clone(), self.state()

    def run_stage(self, name):
        """One kernel by itself over the scratch as it is."""
        a, image = self.addresses(), self.context.image
        kernel = image.resolve(*KERNELS[name])
        check(kernel is not None, f"the image lacks {KERNELS[name]}")
        p = {n: U64(v) for n, v in a.items()}
        cu = U64(self.cu.data_ptr() if self.varlen else 0)
        seq_len = 0 if self.varlen or not self.lens else self.lens[0]
        sizes = [U32(x) for x in (self.batch, seq_len, self.chunks, self.nk, self.nv)]
        dims, stride, gb = [U32(DIM), U32(DIM)], U32(self.stride), U32(2 * self.nv)
        last = [cu, U64(0), U32(self.varlen)]
        stream = self.context.stream()
        if name == "wu_registers":
            args = self.half_maps("k", "v", "w", "u")
            args += [p[n] for n in ("key", "value", "gate", "beta", "w", "u", "gc")]
            args += sizes + [stride, stride, gb] + last
            grid = (max(1, min(self.chunks * self.nv * self.batch, 264)),)
        elif name in FIRST:
            args = [p[n] for n in ("key", "value", "gate", "beta", "w", "u", "gc")]
            args += sizes + dims + [stride, stride, gb] + last
            grid = (self.chunks, self.nv, self.batch)
        elif name in ("x2_v64", "x2_v32"):
            columns = 32 if name == "x2_v32" else 64
            args = [p["h_state"]] + self.split_maps(columns)
            args += [p[n] for n in ("w", "u", "key", "gc", "uc")]
            args += sizes + [stride, U32(self.table)] + last
            grid = (self.nv * (DIM // columns), self.batch)
        elif name == "tma":
            args = [p["h_state"]] + self.maps() + [p[n] for n in ("gc", "s", "uc")]
            args += sizes + [U32(DIM), U32(self.table)] + last
            grid = (self.nv, self.batch)
        elif name in SPINES:
            args = [p[n] for n in ("h_state", "w", "u", "key", "gate", "gc", "s", "uc")]
            args += sizes + dims + [stride, gb, U32(self.table)] + last
            grid = (self.nv, self.batch * (2 if name == "tc_vblock" else 1))
        elif name == "fwd_o_persistent":
            args = self.half_maps("q", "k", "s", "uc") + [p[n] for n in ("query", "key", "gc", "uc", "output")]
            args += sizes + [stride] + last
            grid = (max(1, min(self.chunks * self.nv * self.batch, 264)),)
        else:
            args = [p[n] for n in ("query", "key", "gate", "gc", "s", "uc", "output")]
            args += sizes + dims + [stride, gb] + last
            grid = (self.chunks, self.nv, self.batch)
        image.launch(kernel, grid, args, stream=stream)

    def maps(self):
        """The three tensor maps of _tma, as the launcher encodes them."""
        return [tensor_map(self.w.data_ptr(), self.blocks * CHUNK, DIM, DIM),
                tensor_map(self.u.data_ptr(), self.blocks * CHUNK, DIM, DIM),
                tensor_map(self.addresses()["key"], self.tokens, self.nk * DIM, self.stride)]

    def half_maps(self, *names):
        """Maps of boxes of 64 columns, as the launcher encodes them."""
        a, blocks = self.addresses(), max(self.blocks, 1)
        rows = {"q": (a["query"], max(self.tokens, 1), self.nk * DIM, self.stride),
                "k": (a["key"], max(self.tokens, 1), self.nk * DIM, self.stride),
                "v": (a["value"], max(self.tokens, 1), self.nv * DIM, self.stride),
                "s": (a["s"], blocks * DIM, DIM, DIM),
                **{n: (a[n], blocks * CHUNK, DIM, DIM) for n in ("w", "u", "uc")}}
        return [tensor_map(*rows[n], box=(DIM // 2, DIM if n == "s" else CHUNK), swizzle=3) for n in names]

    def split_maps(self, columns):
        """Maps of the spines that are split over v, as the launcher encodes them."""
        a, blocks, swizzle = self.addresses(), max(self.blocks, 1), 3 if columns == 64 else 2
        rows = [(a["w"], blocks * CHUNK, DIM, DIM, (64, CHUNK), 3),
                (a["u"], blocks * CHUNK, DIM, DIM, (columns, CHUNK), swizzle),
                (a["key"], max(self.tokens, 1), self.nk * DIM, self.stride, (64, CHUNK), 3),
                (a["gc"], blocks, CHUNK, CHUNK, (CHUNK, 1), 0, 7, 4),
                (a["s"], blocks * DIM, DIM, DIM, (columns, DIM), swizzle),
                (a["uc"], blocks * CHUNK, DIM, DIM, (columns, CHUNK), swizzle)]
        return [tensor_map(*map_of) for map_of in rows]

    def solo(self, b):
        """Sequence b as a problem of its own, with the same bits."""
        other = Problem.__new__(Problem)
        begin, end = self.offsets[b], self.offsets[b + 1]
        other.context, other.lens, other.nk, other.nv = self.context, [end - begin], self.nk, self.nv
        other.varlen, other.table, other.batch, other.tokens = False, False, 1, end - begin
        other.chunks, other.offsets, other.stride = chunks_of(end - begin), [0, end - begin], self.stride
        other.cu = torch.tensor(other.offsets, dtype=torch.int32, device=self.context.device)
        other.buffer = self.row[begin:end].clone().flatten()
        other.row = other.buffer.view(end - begin, self.stride)
        other.gb, other.h0 = self.gb[begin:end].clone(), self.h0[b:b + 1].clone()
        other.blocks = other.chunks * self.nv
        other.allocate(other.tokens)
        other.reset()
        return other

    # ---- Oracles ------------------------------------------------------------------------------------

    def sequence64(self, b):
        """q, k, v, gate, beta of a sequence in f64, [tokens, nv, ...]."""
        part = slice(self.offsets[b], self.offsets[b + 1])
        q, k, v = (x[part].double() for x in self.qkv())
        share = self.nv // self.nk
        return (q.repeat_interleave(share, 1), k.repeat_interleave(share, 1), v,
                self.gb[part, :self.nv].double(), self.gb[part, self.nv:].double())

    def recurrence(self, snapshots=False):
        """Oracle A: the token recurrence in f64, gates floored as the contract says. Returns output, states,
        and the states before each chunk."""
        outputs, states, before = [], [], []
        for b in range(self.batch):
            q, k, v, gate, beta = self.sequence64(b)
            s = self.h0[b].double()
            out = torch.empty_like(v)
            gate = gate.clamp_min(1e-30)[:, :, None, None]
            for t in range(len(v)):
                if snapshots and t % CHUNK == 0:
                    before.append(s.clone())
                s = s * gate[t]
                r = beta[t, :, None] * (v[t] - torch.bmm(k[t, :, None], s)[:, 0])
                s.baddbmm_(k[t, :, :, None], r[:, None])
                out[t] = torch.bmm(q[t, :, None], s)[:, 0]
            outputs.append(out / DIM ** 0.5)
            states.append(s)
        return torch.cat(outputs), torch.stack(states), before

    def chunk_list(self):
        """(sequence, first token of the chunk, its tokens, scratch row of its head 0)."""
        found, block = [], 0
        for b, n in enumerate(self.lens):
            for c in range(chunks_of(n)):
                found.append((b, self.offsets[b] + c * CHUNK, min(CHUNK, n - c * CHUNK), block))
                block += self.nv
        return found

    def valid(self):
        """Which rows of [blocks, CHUNK] a kernel writes."""
        mask = torch.zeros(self.blocks, CHUNK, dtype=torch.bool, device=self.context.device)
        for _, _, rows, block in self.chunk_list():
            mask[block:block + self.nv, :rows] = True
        return mask

    def padded64(self):
        """q, k [blocks, CHUNK, DIM], v, gate, beta, f64; rows past a chunk's end are 0 (gate 1)."""
        share, lists = self.nv // self.nk, [[], [], [], [], []]
        q, k, v = self.qkv()
        for _, token, rows, _ in self.chunk_list():
            part = slice(token, token + rows)
            values = (q[part].repeat_interleave(share, 1), k[part].repeat_interleave(share, 1), v[part],
                      self.gb[part, :self.nv], self.gb[part, self.nv:])
            for i, value in enumerate(values):
                full = torch.full((CHUNK, *value.shape[1:]), float(i == 3), dtype=torch.float64,
                                  device=value.device)
                full[:rows] = value.double()
                lists[i].append(full.transpose(0, 1))
        return tuple(torch.cat(part) for part in lists)

    def exact_wu(self):
        """W, U and gc in f64 by a triangular solve."""
        _, k, v, gate, beta = self.padded64()
        gc = gate.clamp_min(1e-30).log().cumsum(-1)
        decay = (gc[:, :, None] - gc[:, None, :]).tril(-1).exp().tril(-1)
        low = beta[:, :, None] * decay * (k @ k.mT)
        rhs = torch.cat((beta[:, :, None] * v, (beta * gc.exp())[:, :, None] * k), -1)
        x = torch.linalg.solve_triangular(low + torch.eye(CHUNK, dtype=torch.float64, device=low.device),
                                          rhs, upper=False, unitriangular=True)
        return x[..., DIM:], x[..., :DIM], gc

    def exact_spine(self):
        """S before each chunk, uc, final states in f64 from this problem's W, U and gc."""
        _, k, _, _, _ = self.padded64()
        live = self.valid()[:, :, None]
        w = torch.where(live, self.w.double(), 0.0)
        u = torch.where(live, self.u.double(), 0.0)
        s_all = torch.empty(self.blocks, DIM, DIM, dtype=torch.float64, device=w.device)
        uc_all = torch.zeros_like(u)
        states = self.h0.double().clone()
        for b, _, rows, block in self.chunk_list():
            part = slice(block, block + self.nv)
            gc = self.gc[part, :rows].double()
            s = s_all[part] = states[b]
            uc = uc_all[part, :rows] = u[part, :rows] - w[part, :rows] @ s
            d = (gc[:, -1:] - gc).exp()[:, :, None] * uc
            states[b] = gc[:, -1].exp()[:, None, None] * s + k[part, :rows].mT @ d
        return s_all, uc_all, states

    def exact_fwd_o(self):
        """The output in f64 from this problem's gc, S and uc."""
        q, k, _, _, _ = self.padded64()
        live = self.valid()
        gc = torch.where(live, self.gc.double(), 0.0)
        uc = torch.where(live[:, :, None], self.uc.double(), 0.0)
        decay = (gc[:, :, None] - gc[:, None, :]).tril().exp().tril()
        o = gc.exp()[:, :, None] * (q @ self.s.double()) + (decay * (q @ k.mT)) @ uc
        out = torch.empty(self.tokens, self.nv, DIM, dtype=torch.float64, device=o.device)
        for _, token, rows, block in self.chunk_list():
            out[token:token + rows] = o[block:block + self.nv, :rows].transpose(0, 1)
        return out / DIM ** 0.5


# ---- Oracle B: the chunk form in f32 with the kernels' rounding points -------------------------------


def product32(a, b):
    """A matrix product as an MMA chain is modelled: exact, rounded once."""
    return (a.double() @ b.double()).float()


def serial_gc(problem):
    """The gate's prefix sums as the kernels add them."""
    _, _, _, gate, _ = problem.padded64()
    logs = gate.float().clamp_min(1e-30).log()
    total = torch.zeros_like(logs[:, 0])
    columns = []
    for i in range(CHUNK):
        total = total + logs[:, i]
        columns.append(total)
    return torch.stack(columns, -1)


def emulate_wu(problem):
    """W, U (bf16) and gc of the parent."""
    _, k, v, _, beta = (x.float() for x in problem.padded64())
    gc = serial_gc(problem)
    decay = (gc[:, :, None] - gc[:, None, :]).tril(-1).exp()
    low = (beta[:, :, None] * decay) * product32(k, k.mT)
    x = torch.cat((beta[:, :, None] * v, (beta * gc.exp())[:, :, None] * k), -1)
    for i in range(1, CHUNK):
        for q in range(i):
            x[:, i] = x[:, i] - low[:, i, q, None] * x[:, q]
    return x[..., DIM:].bfloat16(), x[..., :DIM].bfloat16(), gc


def emulate_scalar_spine(problem):
    """S, uc (bf16) and the final states of the scalar-2 class."""
    _, k, _, _, _ = (x.float() for x in problem.padded64())
    s_all, uc_all = torch.empty_like(problem.s), torch.zeros_like(problem.uc)
    states = problem.h0.clone()
    for b, _, rows, block in problem.chunk_list():
        part = slice(block, block + problem.nv)
        w, u, gc = problem.w[part, :rows].float(), problem.u[part, :rows].float(), problem.gc[part, :rows]
        s = states[b]
        s_all[part] = s.bfloat16()
        halves = []
        for first in (0, DIM // 2):
            p = torch.zeros_like(u)
            for j in range(first, first + DIM // 2):
                p = p + w[:, :, j, None] * s[:, None, j]
            halves.append(p)
        uc = u - (halves[0] + halves[1])
        uc_all[part, :rows] = uc.bfloat16()
        d = (gc[:, -1:] - gc).exp()[:, :, None] * uc
        s = gc[:, -1].exp()[:, None, None] * s
        for i in range(rows):
            s = s + d[:, i, None] * k[part][:, i, :, None]
        states[b] = s
    return s_all, uc_all, states


def emulate_fwd_o(problem):
    """The parent's output."""
    q, k, _, _, _ = (x.float() for x in problem.padded64())
    live = problem.valid()
    gc = torch.where(live, problem.gc, 0.0)
    uc = torch.where(live[:, :, None], problem.uc.float(), 0.0)
    kq = (gc[:, :, None] - gc[:, None, :]).tril().exp() * product32(q, k.mT)
    o1 = product32(q, problem.s).bfloat16().float()
    t2 = torch.zeros_like(o1)
    for j in range(CHUNK):
        t2[:, j:] = t2[:, j:] + kq[:, j:, j, None] * uc[:, j, None]
    o = ((gc.exp()[:, :, None] * o1 + t2) * torch.rsqrt(torch.tensor(float(DIM), device=o1.device))).bfloat16()
    out = torch.empty(problem.tokens, problem.nv, DIM, dtype=torch.bfloat16, device=o.device)
    for _, token, rows, block in problem.chunk_list():
        out[token:token + rows] = o[block:block + problem.nv, :rows].transpose(0, 1)
    return out
