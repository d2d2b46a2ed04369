#!/usr/bin/env python3
"""Speed of the W8A16 launchers beside a Triton kernel of the same contract, bf16 torch.matmul and the memory floor.

    w8a16.py [--rounds N] [--m M,M] [--shape N,K] [--ways by_m,named,rows,16x64] [--no-peers]

One process; every candidate is a captured graph over rotated weight copies (more than 200 MB), replayed in
turns; medians. Triton is tuned per shape and m over its own list of configurations, on the same rotation.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "gpu"), HERE]

import torch
import triton
import triton.language as tl

import harness
import kpk
import w8a16_ops

M_LIST = [1, 4, 8, 16, 17, 32, 48, 64, 128, 256, 512, 2048]
SHAPES = [(8192, 2048), (12288, 2048), (2048, 4096), (12288, 5120), (17408, 5120)]
COPY_BYTES_PER_US = 4.3e6  # one H200, device-to-device copy, read plus written
FLOPS_PER_US = 790e6


@triton.jit
def triton_w8a16(A, B, S, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    rows = tl.minimum(tiles_m - group * GROUP, GROUP)
    pid_m = group * GROUP + pid % (GROUP * tiles_n) % rows
    pid_n = pid % (GROUP * tiles_n) // rows
    m, n, k = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, 128)
    a_at = A + m[:, None] * K + k[None, :]
    b_at = B + n[None, :] * K + k[:, None]
    s_at = S + pid_n * BN // 128 * (K // 128)
    total = tl.zeros((BM, BN), tl.float32)
    for block in range(K // 128):
        a = tl.load(a_at, mask=m[:, None] < M, other=0.0)
        b = tl.load(b_at).to(tl.bfloat16)
        total += tl.dot(a, b) * tl.load(s_at + block)
        a_at += 128
        b_at += 128
    tl.store(C + m[:, None] * N + n[None, :], total.to(tl.bfloat16), mask=m[:, None] < M)


def configurations(m):
    """(BM, BN, warps, stages) that a careful user would try."""
    if m <= 16:
        return [(16, 32, 4, 4), (16, 32, 4, 6), (16, 64, 4, 4), (16, 64, 4, 5), (16, 128, 4, 4), (16, 128, 8, 3)]
    if m <= 32:
        return [(32, 32, 4, 4), (32, 32, 4, 6), (32, 64, 4, 4), (32, 64, 4, 5), (32, 128, 4, 4), (32, 128, 8, 3)]
    if m <= 64:
        return [(64, 32, 4, 4), (64, 64, 4, 4), (64, 64, 4, 3), (64, 128, 4, 3), (64, 128, 8, 3), (32, 64, 4, 4)]
    if m <= 128:
        return [(64, 64, 4, 3), (64, 128, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 3), (128, 128, 4, 2)]
    return [(128, 64, 4, 3), (128, 128, 8, 3), (128, 128, 4, 3), (128, 128, 8, 2), (256, 64, 8, 2), (256, 128, 8, 2)]


class Data:
    """A rotation of weights for one shape."""

    def __init__(self, n, k, most):
        generator = torch.Generator(device="cuda:0")
        generator.manual_seed(5)
        self.n, self.k = n, k
        copies = harness.copies_for(n * k)
        self.weights = []
        for _ in range(copies):
            codes = torch.randint(0, 256, (n, k), dtype=torch.uint8, device="cuda:0", generator=generator)
            codes[(codes & 0x7F) == 0x7F] = 0x38
            scales = (torch.rand((n + 127) // 128, k // 128, device="cuda:0", generator=generator) + 0.5) / 256
            self.weights.append((codes, scales))
        self.bf16 = [torch.randn(n, k, device="cuda:0", generator=generator).to(torch.bfloat16)
                     for _ in range(max(3, (copies + 1) // 2))]
        self.a = torch.randn(most, k, device="cuda:0", generator=generator).to(torch.bfloat16)
        self.out = torch.empty(most, n, dtype=torch.bfloat16, device="cuda:0")

    def ours(self, ops, name, m):
        return [lambda w=w: ops.launch(name, self.a, w[0], w[1], self.out.data_ptr(), m, self.n, self.k)
                for w in self.weights]

    def triton(self, m, config):
        bm, bn, warps, stages = config
        grid = (triton.cdiv(m, bm) * triton.cdiv(self.n, bn),)
        return [lambda w=w: triton_w8a16[grid](self.a, w[0].view(torch.float8_e4m3fn), w[1], self.out, m, self.n,
                                               self.k, bm, bn, 8, num_warps=warps, num_stages=stages)
                for w in self.weights]

    def matmul(self, m):
        out = self.out[:m]
        return [lambda w=w: torch.matmul(self.a[:m], w.T, out=out) for w in self.bf16]


def floor_us(m, n, k):
    """The larger of memory and compute time."""
    moved = n * k + 4 * n * k / 16384 + 2 * m * (k + n)
    return max(moved / COPY_BYTES_PER_US, 2 * m * n * k / FLOPS_PER_US)


def tuned(data, m):
    """The fastest configuration; those that do not compile or fit are passed over."""
    candidates = {}
    for config in configurations(m):
        try:
            calls = data.triton(m, config)
            calls[0]()
            torch.cuda.synchronize()
            candidates[config] = calls
        except Exception as error:  # out of resources
            print(f"    triton {config}: {type(error).__name__}", file=sys.stderr)
    times = harness.time_interleaved(candidates, rounds=7, warm=2)
    return min(times, key=times.get)


def bind(image, way):
    options = {"by_m": {}, "named": {"no_twins": True}, "rows": {"canonical": True}}
    return w8a16_ops.W8A16(image, **options.get(way, {"twin": way}))


def ratio(a, b):
    return f"{a / b:.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--m", default=",".join(map(str, M_LIST)))
    parser.add_argument("--shape", action="append", help="N,K; may be given more than once")
    parser.add_argument("--ways", default="by_m",
                        help="by_m (what an engine gets), named (no twins), rows (the other contract), or a twin's tile")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    shapes = [tuple(map(int, s.split(","))) for s in options.shape] if options.shape else SHAPES
    ms = [int(m) for m in options.m.split(",")]

    torch.cuda.init()
    torch.zeros(1, device="cuda:0")
    image = kpk.Image(kpk.find("hopper.kpk"))
    image.preload()
    ways = options.ways.split(",")
    bound = {way: bind(image, way) for way in ways}
    rows = []
    for n, k in shapes:
        data = Data(n, k, max(ms))
        for m in ms:
            candidates = {way: data.ours(bound[way], "by_m", m) for way in ways}
            entry = bound[ways[0]].launch("by_m", data.a, *data.weights[0], data.out.data_ptr(), m, n, k).entry
            if not options.no_peers:
                config = tuned(data, m)
                candidates["triton"] = data.triton(m, config)
                candidates["matmul"] = data.matmul(m)
            times = harness.time_interleaved(candidates, rounds=options.rounds)
            ours, floor = times[ways[0]], floor_us(m, n, k)
            row = dict(n=n, k=k, m=m, floor=f"{floor:.1f}", **{way: f"{times[way]:.1f}" for way in ways},
                       GBs=f"{n * k / ours / 1e3:.0f}", TFLOPs=f"{2 * m * n * k / ours / 1e6:.0f}",
                       aim=ratio(ours, 1.5 * floor + 3))
            if not options.no_peers:
                row.update(triton=f"{times['triton']:.1f}", matmul=f"{times['matmul']:.1f}",
                           vs_triton=ratio(ours, times["triton"]), vs_matmul=ratio(ours, times["matmul"]),
                           config="x".join(map(str, config)))
            row["entry"] = entry.decode().removeprefix("w8a16_gemm_")
            rows.append(row)
            print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        del data
    print(f"\n{torch.cuda.get_device_name(0)}; microseconds; aim = ours / (1.5 * floor + 3)")
    print(harness.table(rows))


if __name__ == "__main__":
    main()
