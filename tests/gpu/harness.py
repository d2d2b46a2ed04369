"""What the GPU tests share: registration, tables, error measures, poisoned buffers, timing in graphs.

A test is a function marked @test in any .py file of this folder; it gets a Context, raises Skip when
what it needs is not there, and fails by raising anything else (check() raises with its message).
"""
import math
import statistics
import time
import traceback

import torch

TESTS = []


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def check(condition, message):
    if not condition:
        raise Failure(message)


class Context:
    """Given to each test: the open image, the device, and a table to fill."""

    def __init__(self, image, quick=False):
        self.image = image
        self.quick = quick  # small cases only: under compute-sanitizer
        self.device = torch.device("cuda:0")
        self.rows = []
        self.notes = []
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(20)

    def row(self, **cells):
        """Adds a line to the test's table."""
        self.rows.append(cells)

    def note(self, text):
        self.notes.append(text)

    def randn(self, *shape):
        return torch.randn(*shape, generator=self.generator, device=self.device)

    def rand(self, *shape):
        return torch.rand(*shape, generator=self.generator, device=self.device)

    def randint(self, low, high, shape, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.generator, device=self.device, dtype=dtype)

    def stream(self):
        return torch.cuda.current_stream().cuda_stream


def table(rows):
    """Rows of cells as aligned text."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value):
        if isinstance(value, float):
            return f"{value:.3g}" if abs(value) < 1e-2 or abs(value) >= 1e5 else f"{value:.3f}"
        return str(value)

    lines = [names] + [[cell(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths)).rstrip()
                     for line in lines)


def run_all(context, words):
    """Runs the tests whose name contains one of `words` (all without); returns the three counts."""
    passed = failed = skipped = 0
    for function in TESTS:
        name = f"{function.__module__}.{function.__name__}"
        if words and not any(word in name for word in words):
            continue
        context.rows, context.notes = [], []
        start = time.monotonic()
        try:
            function(context)
            torch.cuda.synchronize()
            passed += 1
            verdict = "ok"
        except Skip as reason:
            skipped += 1
            verdict = f"skipped: {reason}"
        except Exception as error:
            failed += 1
            verdict = f"FAILED: {error}"
            if not isinstance(error, Failure):
                verdict += "\n" + traceback.format_exc()
        print(f"{name}: {verdict} ({time.monotonic() - start:.1f} s)", flush=True)
        for note in context.notes:
            print(f"    {note}")
        if context.rows:
            print("    " + table(context.rows).replace("\n", "\n    "), flush=True)
    return passed, failed, skipped


# ---- Errors -----------------------------------------------------------------------------------------


def bits(tensor):
    """The tensor's bytes as integers of its element size."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a.contiguous()), bits(b.contiguous()))


def rel_rms(value, reference):
    """||value - reference|| / ||reference|| in f64; NaN when value holds one that reference lacks."""
    difference = value.double() - reference.double()
    scale = reference.double().norm().item()
    return difference.norm().item() / scale if scale else difference.norm().item()


# ---- Poisoned buffers -------------------------------------------------------------------------------

POISON = {torch.bfloat16: 0x7FA5, torch.float32: 0x7FA5A5A5}  # NaNs that no kernel produces
GUARD = 64  # elements before and after


class Poisoned:
    """A tensor of rows x columns inside a buffer of NaNs: guards before, after, and between rows."""

    def __init__(self, rows, columns, pitch=None, dtype=torch.bfloat16, device="cuda:0"):
        self.rows, self.columns, self.pitch = rows, columns, columns if pitch is None else pitch
        self.dtype = dtype
        self.buffer = torch.empty(2 * GUARD + rows * self.pitch, dtype=dtype, device=device)
        self.poison()

    def poison(self):
        bits(self.buffer).fill_(POISON[self.dtype])

    def pointer(self):
        return self.buffer.data_ptr() + GUARD * self.buffer.element_size()

    def value(self):
        """The tensor as the kernel left it (a view)."""
        inside = self.buffer[GUARD:GUARD + self.rows * self.pitch]
        return inside.view(self.rows, self.pitch)[:, :self.columns]

    def check(self, what):
        """Every element written, nothing else touched."""
        poison = POISON[self.dtype]
        unwritten = (bits(self.value()) == poison).sum().item()
        check(unwritten == 0, f"{what}: {unwritten} elements were not written")
        untouched = bits(self.buffer).clone()
        inside = untouched[GUARD:GUARD + self.rows * self.pitch].view(self.rows, self.pitch)
        inside[:, :self.columns] = poison
        stray = (untouched != poison).sum().item()
        check(stray == 0, f"{what}: {stray} elements outside the output were written")


# ---- Timing -----------------------------------------------------------------------------------------


def capture(calls):
    """One CUDA graph that runs `calls` in order. Each is called once before, to load and warm."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def time_interleaved(candidates, rounds=50, warm=3):
    """Median microseconds per call of each candidate: {name: [calls]}, replayed in turns.

    A candidate's calls should differ in their weights, so that no call finds its own in the cache."""
    graphs = {name: (capture(calls), len(calls)) for name, calls in candidates.items()}
    times = {name: [] for name in graphs}
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for turn in range(warm + rounds):
        for name, (graph, count) in graphs.items():
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            if turn >= warm:
                times[name].append(start.elapsed_time(stop) * 1e3 / count)
    return {name: statistics.median(values) for name, values in times.items()}


def copies_for(weight_bytes, total=220e6):
    """How many distinct copies keep a rotation out of the 60 MB cache; at least 3."""
    return max(3, math.ceil(total / weight_bytes))
