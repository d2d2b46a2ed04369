"""The W8A16 launchers through ctypes, their oracle, and makers of problems."""
import ctypes as C
import os

import torch

import harness
import kpk

K_BLOCK = 128
TWINS = ["16x16", "16x64", "16x96", "16x144", "32x16", "32x32", "32x64", "32x96", "32x144", "48x16", "64x64",
         "64x96", "64x136", "128x64", "128x128"]  # as enum w8a16_twin has them


class Desc(C.Structure):
    _fields_ = [("message", kpk.MESSAGE), ("message_user", C.c_void_p), ("canonical", C.c_bool),
                ("no_twins", C.c_bool)]


class Route(C.Structure):
    _fields_ = [("module", C.c_char_p), ("entry", C.c_char_p), ("contract", C.c_int),
                ("skinny", C.c_bool), ("grid", kpk.Grid), ("dynamic_smem", C.c_uint32),
                ("rows", C.c_int), ("twin", C.c_int), ("pipe128", C.c_int)]


class Ops(C.Structure):
    c_name = "struct w8a16"
    _fields_ = [("image", C.c_void_p), ("message", C.c_void_p), ("message_user", C.c_void_p),
                ("pipelined", C.c_uint64), ("m32", C.c_uint64), ("m64", C.c_uint64), ("pipe128", C.c_uint64),
                ("rows", C.c_uint64 * 3), ("hopper", C.c_uint64 * len(TWINS)), ("encode", C.c_void_p),
                ("sm_count", C.c_uint32), ("no_twins", C.c_bool), ("policy", C.c_int), ("no_pipe128", C.c_bool),
                ("no_rows", C.c_bool)]


class W8A16:
    """A bound struct w8a16. canonical: ask for the "rows" contract where it applies; no_twins: run the
    named kernels even where a Hopper twin is shipped; twin: that Hopper twin wherever one runs."""

    def __init__(self, image, canonical=False, no_twins=False, twin=None):
        self.image = image
        kpk.load_library()
        self.lib = C.CDLL(kpk.find("lib/libkpk_ops.so"))
        self.messages = []
        self.callback = kpk.MESSAGE(lambda user, severity, text: self.messages.append(text.decode()))
        self.struct = Ops()
        desc = Desc(message=self.callback, canonical=canonical, no_twins=no_twins)
        self.check(self.lib.w8a16_bind(image.handle, C.byref(desc), C.byref(self.struct)))
        self.twin = twin
        if twin is not None:
            handle = self.struct.hopper[TWINS.index(twin)]
            self.struct.hopper = (C.c_uint64 * len(TWINS))()
            self.struct.hopper[TWINS.index(twin)] = handle
        self.route = Route()

    def check(self, status):
        if status != 0:
            raise kpk.Failed(status, self.messages[-1] if self.messages else f"status {status}")

    def launch(self, name, A, B, bs, out, m, n, k, lda=None, ldc=None):
        """name: pipelined, m32, m64, by_m or rows; with a pitch given, the strided form.
        A, B, bs: tensors or addresses; out: an address. Returns the route."""
        address = [C.c_uint64(x if isinstance(x, int) else x.data_ptr()) for x in (A, B, bs, out)]
        sizes = [C.c_uint32(x) for x in (m, n, k)]
        function = "w8a16_tc_rows_launch" if name == "rows" else (
            "w8a16_gemm_pipelined" + ("" if name == "pipelined" else "_" + name))
        if name == "rows" or lda is not None or ldc is not None:
            sizes += [C.c_uint32(lda or k), C.c_uint32(ldc or n)]
            if name != "rows":
                function += "_strided"
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(getattr(self.lib, function)(C.byref(self.struct), *address, *sizes, stream, C.byref(self.route)))
        return self.route


class Tiles:
    """Every way to run the "tile" contract: the Hopper twins, the named kernels, and the 128-row tile where
    pipe128 would take its place."""

    def __init__(self, image):
        self.twins = W8A16(image)
        self.named = W8A16(image, no_twins=True)
        os.environ["METRALE_NO_W8A16_PIPE128"] = ""
        self.plain = W8A16(image, no_twins=True)
        del os.environ["METRALE_NO_W8A16_PIPE128"]
        self.shipped = {entry.name.decode() for entry in image.entries()}
        self.each = [W8A16(image, twin=twin) for twin in TWINS if f"w8a16_gemm_hopper_{twin}" in self.shipped]

    def ways(self, m, n, strided=False):
        """(bound struct, launcher) pairs that take this shape and run different kernels."""
        found = [] if strided else [(self.plain, "pipelined")]
        found += [(self.named, name) for name in ("m32", "m64") if f"w8a16_gemm_pipelined_{name}" in self.shipped]
        if not strided and m >= 256 and n % K_BLOCK == 0 and "w8a16_gemm_pipe128" in self.shipped:
            found.append((self.named, "pipelined"))
        return found + [(twin, "m32" if strided else "by_m") for twin in self.each]


# ---- Oracle -----------------------------------------------------------------------------------------


def decode_table(nan=0.0):
    """The 256 values of E4M3 in f64; the NaN codes as +-nan."""
    values = []
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        value = (mantissa / 8) * 2.0 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        if code & 0x7F == 0x7F:
            value = nan
        values.append(-value if code & 0x80 else value)
    return torch.tensor(values, dtype=torch.float64, device="cuda:0")


def expand(bs, n, k):
    """Block scales as one factor per weight."""
    return bs.repeat_interleave(K_BLOCK, 0)[:n].repeat_interleave(K_BLOCK, 1)[:, :k]


def exact(A, B, bs, nan=0.0):
    """The product in f64, unrounded."""
    weight = decode_table(nan)[B.long()] * expand(bs, *B.shape).double()
    return A.double() @ weight.T


def recipe(A, B, bs):
    """The "tile" contract with its rounding points, each block's eight MMAs as one f64 dot."""
    weight = decode_table()[B.long()]
    n, k = B.shape
    outer = torch.zeros(A.shape[0], n, device=A.device)
    for block in range(k // K_BLOCK):
        part = slice(block * K_BLOCK, (block + 1) * K_BLOCK)
        inner = (A[:, part].double() @ weight[:, part].T).float()
        scale = bs[:, block].repeat_interleave(K_BLOCK)[:n]
        outer = outer + inner * scale
    return outer.to(torch.bfloat16)


def check_close(out, reference, k, what):
    """KERNELS' tolerance: 2 bf16 ulp, or 8 * 2^-24 * sqrt(K) of the row's rms; rel_rms <= 1e-3."""
    rounded = reference.to(torch.bfloat16).double()
    error = (out.double() - rounded).abs()
    harness.check(bool(torch.isfinite(error).all()), f"{what}: an output is not finite")
    _, exponent = torch.frexp(rounded)
    ulp = torch.ldexp(torch.ones_like(rounded), (exponent - 8).clamp(min=-133))
    row_rms = reference.pow(2).mean(1, keepdim=True).sqrt()
    bound = torch.maximum(2 * ulp, 8 * 2.0 ** -24 * k ** 0.5 * row_rms)
    worst = (error / bound).max().item()
    harness.check(worst <= 1, f"{what}: an error of {worst:.2f} times its bound")
    rms = harness.rel_rms(out, rounded)
    harness.check(rms <= 1e-3, f"{what}: rel_rms {rms:.2e}")
    return rms


# ---- Problems ---------------------------------------------------------------------------------------


class Problem:
    """Random A, B, bs; A's rows lda apart with +inf between them."""

    def __init__(self, context, m, n, k, lda=None, nan_codes=False):
        self.m, self.n, self.k, self.lda = m, n, k, lda or k
        self.storage = torch.full((m, self.lda), float("inf"), dtype=torch.bfloat16, device="cuda:0")
        self.A = self.storage[:, :k]
        self.A.copy_(context.randn(m, k))
        self.B = context.randint(0, 256, (n, k), torch.uint8)
        if not nan_codes:
            self.B[(self.B & 0x7F) == 0x7F] = 0x38
        rows = (n + K_BLOCK - 1) // K_BLOCK
        self.bs = (context.rand(rows, k // K_BLOCK) + 0.5) * 2.0 ** -8

    def run(self, ops, name, out=None, m=None, ldc=None, what=""):
        """Runs a launcher into a poisoned output, checks its guards, returns (value, route)."""
        m = self.m if m is None else m
        out = harness.Poisoned(m, self.n, ldc)
        strided = name in ("m32", "m64", "rows") and (self.lda != self.k or ldc is not None)
        pitches = dict(lda=self.lda, ldc=ldc or self.n) if strided else {}
        route = ops.launch(name, self.storage, self.B, self.bs, out.pointer(), m, self.n, self.k, **pitches)
        torch.cuda.synchronize()
        if ops.twin is not None:
            entry = route.entry.decode()
            harness.check(entry == f"w8a16_gemm_hopper_{ops.twin}", f"asked for twin {ops.twin}, ran {entry}")
        out.check(f"{name} m={m} n={self.n} k={self.k} {what}")
        return out.value().clone(), route
