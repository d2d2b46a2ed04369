/* The GDN kernels' own sources, run on the host (emulate.h) against a double-precision token
 * recurrence: every entry in a route, the byte classes, tails, empty sequences, tables, poisoned
 * scratch. */
#include "emulate.h"

#include <algorithm>
#include <cstdarg>

/* The launcher's constants in the place of the target description's: the kernels' own assertions
 * then say that both agree. */
#include "ops/gdn.h"
#define K_DIM 128
#define V_DIM 128
#define CHUNK 64
#define DV_BLK 64
#define PITCH 136
#define PITCH_T 72
#define PITCH_X 24
#define STAGES 4
#define K_SLOTS 3
#define V_SLOTS 2
static_assert(K_DIM == GDN_K_DIM && V_DIM == GDN_V_DIM && CHUNK == GDN_CHUNK &&
                  DV_BLK == GDN_DV_BLK && PITCH == GDN_PITCH && PITCH_T == GDN_PITCH_T &&
                  PITCH_X == GDN_PITCH_X,
              "the launcher's constants");
#define KPK_SMEM_gated_delta_rule_recompute_wu GDN_WU_SMEM
#define KPK_BLOCK_gated_delta_rule_recompute_wu (int)(GDN_WU_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_ksplit GDN_SPINE_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_ksplit (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_pipe GDN_SPINE_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_pipe (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tma GDN_SPINE_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tma (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_vfused GDN_FUSED_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_vfused (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_vtile GDN_FUSED_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_vtile (int)(GDN_VTILE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tc_vblock GDN_VBLOCK_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tc_vblock (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_fwd_o GDN_FWD_O_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_fwd_o (int)(GDN_FWD_O_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_fwd_o_mma8 GDN_FWD_O_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_fwd_o_mma8 (int)(GDN_FWD_O_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse GDN_TC_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2 GDN_TC_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2 (int)(GDN_SPINE_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64 GDN_SPLIT_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64 (int)(GDN_SPLIT_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 GDN_QUARTER_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 (int)(GDN_QUARTER_BLOCK)
#define KPK_SMEM_gated_delta_rule_recompute_wu_hopper GDN_WU_HOPPER_SMEM
#define KPK_BLOCK_gated_delta_rule_recompute_wu_hopper (int)(GDN_WU_HOPPER_BLOCK)
#define KPK_SMEM_gated_delta_rule_recompute_wu_registers GDN_WU_REGISTERS_SMEM
#define KPK_BLOCK_gated_delta_rule_recompute_wu_registers (int)(GDN_WU_REGISTERS_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_fwd_o_hopper GDN_FWD_O_HOPPER_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_fwd_o_hopper (int)(GDN_FWD_O_BLOCK)
#define KPK_SMEM_gated_delta_rule_chunk_fwd_o_persistent GDN_FWD_O_PERSISTENT_SMEM
#define KPK_BLOCK_gated_delta_rule_chunk_fwd_o_persistent (int)(GDN_FWD_O_PERSISTENT_BLOCK)

#include "gdn_entry.cuh"
#include "gdn_fwd_o.cuh"
#include "gdn_spine_hopper.cuh"
#include "gdn_vblock.cuh"
#include "gdn_wu.cuh"

namespace fla
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gated_delta_rule_fla.cu"
} // namespace fla
namespace mma8
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_chunk_fwd_o_mma8.cu"
} // namespace mma8
namespace tc
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gated_delta_rule_chunk_tc.cu"
} // namespace tc
namespace split
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_spine_hopper.cu"
} // namespace split
namespace quarters
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_spine_quarters.cu"
} // namespace quarters
#undef GDN_WU_THREADS
namespace wuh
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_recompute_wu_hopper.cu"
} // namespace wuh
#undef GDN_WU_THREADS
namespace wur
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_recompute_wu_registers.cu"
} // namespace wur
#undef GDN_FWD_O_THREADS
namespace foh
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_fwd_o_hopper.cu"
} // namespace foh
namespace fop
{
alignas(1024) u8 gdn_smem[EMU_SMEM];
#include "gdn_fwd_o_persistent.cu"
} // namespace fop

enum {
    KSPLIT,
    VFUSED,
    PIPE,
    TMA,
    VTILE,
    VBLOCK,
    TCFUSE,
    TCFUSE_X2,
    X2_V64,
    X2_V32,
    SPINES
};
static const char *const spine_names[] = {
    "_ksplit",    "_vfused", "_pipe",      "_tma",           "_vtile",
    "_tc_vblock", "_tcfuse", "_tcfuse_x2", "_tcfuse_x2_v64", "_tcfuse_x2_v32"};

/* The classes' twins get the same chunk_fwd_o. */
static int fwd_o_of(int spine)
{
    return spine < TCFUSE_X2 ? spine % 2 : 1;
}

static unsigned long long seed = 1;
static double uniform()
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(seed >> 11) / 9007199254740992.0;
}

struct problem {
    unsigned nk, nv, batch, chunks; /* chunks: grid x */
    bool varlen, table;
    std::vector<int> cu;
    unsigned seq_len, tokens;
    u64 blocks;
    unsigned qk_stride, gb_stride;
    std::vector<u16> row; /* packed [q | k | v] */
    std::vector<float> gb;
    std::vector<float> h0;
    unsigned length(unsigned b) const
    {
        return (unsigned)(cu[b + 1] - cu[b]);
    }
};

static problem make(unsigned nk, unsigned nv, std::vector<unsigned> lengths, bool varlen,
                    bool table, int gates)
{
    problem p = {};
    p.nk = nk, p.nv = nv, p.batch = (unsigned)lengths.size(), p.varlen = varlen, p.table = table;
    p.cu = {0};
    for (unsigned n : lengths) {
        p.cu.push_back(p.cu.back() + (int)n);
        p.chunks = std::max(p.chunks, (n + 63) / 64);
    }
    p.seq_len = lengths[0], p.tokens = (unsigned)p.cu.back(),
    p.blocks = (u64)p.batch * p.chunks * nv;
    p.qk_stride = 2 * nk * 128 + nv * 128, p.gb_stride = 2 * nv;
    p.row.resize((u64)p.tokens * p.qk_stride);
    for (u64 t = 0; t < p.tokens; ++t)
        for (unsigned head = 0; head < 2 * nk + nv; ++head) {
            double x[128], norm = 0;
            for (double &e : x)
                e = uniform() + uniform() + uniform() - 1.5, norm += e * e;
            for (unsigned j = 0; j < 128; ++j)
                p.row[t * p.qk_stride + head * 128 + j] =
                    bf16_from_f32((float)(head < 2 * nk ? x[j] / sqrt(norm) : x[j]));
        }
    for (u64 t = 0; t < p.tokens; ++t)
        for (unsigned i = 0; i < 2 * nv; ++i) {
            double x = uniform();
            if (i < nv) {
                static const double extreme[] = {1.0, 1e-6, 0.0, 1e-30, 0.999, 1e-12};
                x = gates == 0 ? exp(-0.1 * x) : gates == 1 ? 1.0 : extreme[(unsigned)(x * 6)];
            }
            p.gb.push_back((float)x);
        }
    p.h0.resize((u64)p.batch * nv * 16384);
    for (u64 i = 0; i < p.h0.size(); ++i)
        p.h0[i] = (float)((uniform() - 0.5) * 0.2 * (double)(1 + i / 128 % 128) / 128.0);
    return p;
}

struct result {
    std::vector<u16> w, u, s, uc, out;
    std::vector<float> gc, h;
};

enum {
    WU,
    WU_HOPPER,
    WU_REGISTERS
};
enum {
    FWD_O_HOPPER = 2, /* of outputs */
    PERSISTENT
};

static result run(const problem &p, int kernel1, int spine, int fwd)
{
    result r;
    r.w.assign(p.blocks * 8192, 0xFFFF), r.u = r.w, r.uc = r.w;
    r.s.assign(p.blocks * 16384, 0xFFFF);
    r.gc.assign(p.blocks * 64, NAN);
    r.out.assign((u64)p.tokens * p.nv * 128, 0xFFFF);
    r.h = p.h0;
    std::vector<float *> table;
    for (unsigned b = 0; b < p.batch; ++b)
        table.push_back(&r.h[(u64)b * p.nv * 16384]);
    void *h = p.table ? (void *)table.data() : (void *)r.h.data();
    const u16 *q = p.row.data(), *k = q + p.nk * 128, *v = k + p.nk * 128;
    const float *gate = p.gb.data(), *beta = gate + p.nv;
    const int *cu = p.varlen ? p.cu.data() : nullptr;
    const unsigned B = p.batch, T = p.varlen ? 0 : p.seq_len, N = p.chunks, gb = p.gb_stride,
                   qk = p.qk_stride;

    static const struct {
        decltype(&fla::gated_delta_rule_recompute_wu) entry;
        unsigned threads;
        u8 *smem;
    } firsts[] = {{fla::gated_delta_rule_recompute_wu, 256, fla::gdn_smem},
                  {wuh::gated_delta_rule_recompute_wu_hopper, 512, wuh::gdn_smem}};
    const auto halves = [](const u16 *base, u64 columns, u64 rows, u64 pitch, u64 box_rows) {
        return tensor_map{base, columns, rows, pitch, 64, box_rows, true};
    };
    if (kernel1 == WU_REGISTERS) {
        const tensor_map km = halves(k, p.nk * 128, p.tokens, qk, 64),
                         vm = halves(v, p.nv * 128, p.tokens, qk, 64),
                         wm = halves(r.w.data(), 128, p.blocks * 64, 128, 64),
                         um = halves(r.u.data(), 128, p.blocks * 64, 128, 64);
        emu_launch({2, 1, 1}, GDN_WU_REGISTERS_BLOCK, wur::gdn_smem, [&] {
            wur::gated_delta_rule_recompute_wu_registers(
                km, vm, wm, um, k, v, gate, beta, r.w.data(), r.u.data(), r.gc.data(), B, T, N,
                p.nk, p.nv, qk, qk, gb, cu, nullptr, p.varlen);
        });
    } else {
        emu_launch({N, p.nv, B}, firsts[kernel1].threads, firsts[kernel1].smem, [&] {
            firsts[kernel1].entry(k, v, gate, beta, r.w.data(), r.u.data(), r.gc.data(), B, T, N,
                                  p.nk, p.nv, 128, 128, qk, qk, gb, cu, nullptr, p.varlen);
        });
    }
    static const struct {
        decltype(&fla::gated_delta_rule_chunk_delta_h_pipe) entry;
        unsigned threads, split;
    } spines[SPINES] = {
        {fla::gated_delta_rule_chunk_delta_h_ksplit, 256, 1},
        {fla::gated_delta_rule_chunk_delta_h_vfused, 256, 1},
        {fla::gated_delta_rule_chunk_delta_h_pipe, 256, 1},
        {nullptr, 256, 1},
        {fla::gated_delta_rule_chunk_delta_h_vtile, 512, 1},
        {fla::gated_delta_rule_chunk_delta_h_tc_vblock, 256, 2},
        {tc::gated_delta_rule_chunk_delta_h_tcfuse, 256, 1},
        {tc::gated_delta_rule_chunk_delta_h_tcfuse_x2, 256, 1},
        {nullptr, GDN_SPLIT_BLOCK, 1},
        {nullptr, GDN_QUARTER_BLOCK, 1},
    };
    u8 *smem = spine == X2_V32   ? quarters::gdn_smem
               : spine == X2_V64 ? split::gdn_smem
               : spine >= TCFUSE ? tc::gdn_smem
                                 : fla::gdn_smem;
    const unsigned slices = spine == X2_V32 ? 4 : spine == X2_V64 ? 2 : 1;
    emu_launch({p.nv * slices, B * spines[spine].split, 1}, spines[spine].threads, smem, [&] {
        if (spine == TMA) {
            const tensor_map wm = {r.w.data(), 128, p.blocks * 64, 128},
                             um = {r.u.data(), 128, p.blocks * 64, 128},
                             km = {k, p.nk * 128, p.tokens, qk};
            fla::gated_delta_rule_chunk_delta_h_tma(h, wm, um, km, r.gc.data(), r.s.data(),
                                                    r.uc.data(), B, T, N, p.nk, p.nv, 128, p.table,
                                                    cu, nullptr, p.varlen);
        } else if (spine >= X2_V64) {
            const auto columns = [&](const u16 *base, u64 rows, u64 box_rows) {
                return tensor_map{base,     128, rows, 128, spine == X2_V64 ? 64u : 32u,
                                  box_rows, true};
            };
            const tensor_map wm = halves(r.w.data(), 128, p.blocks * 64, 128, 64),
                             um = columns(r.u.data(), p.blocks * 64, 64),
                             km = halves(k, p.nk * 128, p.tokens, qk, 64),
                             gm = {(const u16 *)r.gc.data(), 128, p.blocks, 128, 128, 1},
                             sm = columns(r.s.data(), p.blocks * 128, 128),
                             cm = columns(r.uc.data(), p.blocks * 64, 64);
            (spine == X2_V64 ? split::gated_delta_rule_chunk_delta_h_tcfuse_x2_v64
                             : quarters::gated_delta_rule_chunk_delta_h_tcfuse_x2_v32)(
                h, wm, um, km, gm, sm, cm, r.w.data(), r.u.data(), k, r.gc.data(), r.uc.data(), B,
                T, N, p.nk, p.nv, qk, p.table, cu, nullptr, p.varlen);
        } else {
            spines[spine].entry(h, r.w.data(), r.u.data(), k, gate, r.gc.data(), r.s.data(),
                                r.uc.data(), B, T, N, p.nk, p.nv, 128, 128, qk, gb, p.table, cu,
                                nullptr, p.varlen);
        }
    });
    static const struct {
        decltype(&fla::gated_delta_rule_chunk_fwd_o) entry;
        u8 *smem;
    } outputs[] = {{fla::gated_delta_rule_chunk_fwd_o, fla::gdn_smem},
                   {mma8::gated_delta_rule_chunk_fwd_o_mma8, mma8::gdn_smem},
                   {foh::gated_delta_rule_chunk_fwd_o_hopper, foh::gdn_smem}};
    if (fwd == PERSISTENT) {
        const tensor_map qm = halves(q, p.nk * 128, p.tokens, qk, 64),
                         km = halves(k, p.nk * 128, p.tokens, qk, 64),
                         sm = halves(r.s.data(), 128, p.blocks * 128, 128, 128),
                         cm = halves(r.uc.data(), 128, p.blocks * 64, 128, 64);
        emu_launch({2, 1, 1}, GDN_FWD_O_PERSISTENT_BLOCK, fop::gdn_smem, [&] {
            fop::gated_delta_rule_chunk_fwd_o_persistent(qm, km, sm, cm, q, k, r.gc.data(),
                                                         r.uc.data(), r.out.data(), B, T, N, p.nk,
                                                         p.nv, qk, cu, nullptr, p.varlen);
        });
        return r;
    }
    emu_launch({N, p.nv, B}, 512, outputs[fwd].smem, [&] {
        outputs[fwd].entry(q, k, gate, r.gc.data(), r.s.data(), r.uc.data(), r.out.data(), B, T, N,
                           p.nk, p.nv, 128, 128, qk, gb, cu, nullptr, p.varlen);
    });
    return r;
}

/* The token recurrence in double precision. */
static void oracle(const problem &p, std::vector<double> &out, std::vector<double> &h)
{
    h.assign(p.h0.begin(), p.h0.end());
    out.assign((u64)p.tokens * p.nv * 128, 0);
    for (unsigned b = 0; b < p.batch; ++b)
        for (unsigned vh = 0; vh < p.nv; ++vh) {
            double *s = &h[((u64)b * p.nv + vh) * 16384];
            for (u64 t = (u64)p.cu[b]; t < (u64)p.cu[b + 1]; ++t) {
                const u16 *row = &p.row[t * p.qk_stride];
                const u16 *q = row + vh / (p.nv / p.nk) * 128, *k = q + p.nk * 128;
                const u16 *v = row + 2 * p.nk * 128 + vh * 128;
                const double alpha = fmax((double)p.gb[t * p.gb_stride + vh], 1e-30);
                const double beta = p.gb[t * p.gb_stride + p.nv + vh];
                for (unsigned j = 0; j < 128; ++j) {
                    double dot = 0, o = 0;
                    for (unsigned i = 0; i < 128; ++i)
                        s[i * 128 + j] *= alpha,
                            dot += (double)f32_from_bf16(k[i]) * s[i * 128 + j];
                    const double r = beta * ((double)f32_from_bf16(v[j]) - dot);
                    for (unsigned i = 0; i < 128; ++i) {
                        s[i * 128 + j] += (double)f32_from_bf16(k[i]) * r;
                        o += (double)f32_from_bf16(q[i]) * s[i * 128 + j];
                    }
                    out[(t * p.nv + vh) * 128 + j] = o / sqrt(128.0);
                }
            }
        }
}

template <class A, class F>
static double rel_rms(const std::vector<A> &got, const std::vector<double> &want, F value)
{
    double error = 0, norm = 0;
    for (u64 i = 0; i < want.size(); ++i) {
        const double d = (double)value(got[i]) - want[i];
        error += d * d, norm += want[i] * want[i];
    }
    return norm == 0 ? sqrt(error) : sqrt(error / norm);
}

static int tests;
static void check(bool good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%sok %d - ", good ? "" : "not ", ++tests);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

template <class T> static bool same(const std::vector<T> &a, const std::vector<T> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

static bool equal(const result &a, const result &b)
{
    return same(a.w, b.w) && same(a.u, b.u) && same(a.s, b.s) && same(a.uc, b.uc) &&
           same(a.out, b.out) && same(a.gc, b.gc) && same(a.h, b.h);
}

int main()
{
    const struct {
        const char *name;
        problem p;
    } cases[] = {
        {"T=66 nk=1 nv=2", make(1, 2, {66}, false, false, 0)},
        {"varlen 129,0,63 in a table", make(1, 1, {129, 0, 63}, true, true, 0)},
        {"varlen 0,1,17 gate 1", make(1, 1, {0, 1, 17}, true, false, 1)},
        {"T=127 extreme gates", make(1, 1, {127}, false, false, 2)},
        {"two of T=64 in a table", make(1, 1, {64, 64}, false, true, 0)},
    };
    const auto f32 = [](float x) { return x; };
    const auto bf = [](u16 x) { return f32_from_bf16(x); };

    for (const auto &c : cases) {
        std::vector<double> out, h;
        result first[SPINES];
        oracle(c.p, out, h);
        for (int spine = 0; spine < SPINES; ++spine) {
            emu.descending = false;
            const result r = first[spine] = run(c.p, WU, spine, fwd_o_of(spine));
            emu.descending = true;
            check(equal(r, run(c.p, WU, spine, fwd_o_of(spine))), "%s %s: any order of threads",
                  c.name, spine_names[spine]);
            const double eo = rel_rms(r.out, out, bf), eh = rel_rms(r.h, h, f32);
            check(eo < 8e-3 && eh < 8e-3, "%s %s: output %.2e state %.2e", c.name,
                  spine_names[spine], eo, eh);
        }
        for (int spine : {KSPLIT, VFUSED, TMA})
            check(equal(first[spine], first[PIPE]), "%s %s: bytes of _pipe", c.name,
                  spine_names[spine]);
        for (int spine : {X2_V64, X2_V32})
            check(equal(first[spine], first[TCFUSE_X2]), "%s %s: bytes of _tcfuse_x2", c.name,
                  spine_names[spine]);
        for (int order = 0; order < 2; ++order) {
            emu.descending = order;
            const result twin = run(c.p, WU_HOPPER, TCFUSE_X2, FWD_O_HOPPER);
            const double eo = rel_rms(twin.out, out, bf), eh = rel_rms(twin.h, h, f32);
            check(eo < 5e-3 && eh < 5e-3, "%s hopper twins: output %.2e state %.2e", c.name, eo,
                  eh);
            check(same(twin.gc, first[PIPE].gc), "%s hopper twins: gc's bytes", c.name);
            check(equal(run(c.p, WU_REGISTERS, X2_V64, FWD_O_HOPPER), twin),
                  "%s _wu_registers: bytes of _wu_hopper", c.name);
            check(equal(run(c.p, WU_REGISTERS, X2_V64, PERSISTENT), twin),
                  "%s fwd_o_persistent: bytes of fwd_o_hopper", c.name);
        }
    }
    /* More chunks than a split spine has stages. */
    const problem ring = make(1, 1, {450}, false, false, 0);
    const result x2 = run(ring, WU_HOPPER, TCFUSE_X2, 1);
    for (int order = 0; order < 2; ++order) {
        emu.descending = order;
        for (int spine : {X2_V64, X2_V32})
            check(equal(run(ring, WU_REGISTERS, spine, 1), x2), "T=450 %s: bytes of _tcfuse_x2",
                  spine_names[spine]);
    }
    printf("1..%d\n", tests);
    return 0;
}
