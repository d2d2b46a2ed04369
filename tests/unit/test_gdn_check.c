/* What the GDN launcher checks of its arguments before it touches the driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gdn_sample.h"
#include "ops/gdn.h"

static void checks_as(const struct gdn_args *args, const char *want)
{
    char text[256];
    kpk_status status = gdn_check(args, text, sizeof text);

    if (want == NULL) {
        assert_string_equal(text, "");
        assert_int_equal(status, KPK_OK);
        return;
    }
    assert_int_equal(status, KPK_ERR_UNSUPPORTED);
    if (strstr(text, want) == NULL)
        fail_msg("'%s' lacks '%s'", text, want);
}

#define CHECK_WITH(change, want)                                                                   \
    do {                                                                                           \
        struct gdn_args a = good;                                                                  \
        change;                                                                                    \
        checks_as(&a, want);                                                                       \
    } while (0)

static void shape_checks(void **state)
{
    (void)state;
    CHECK_WITH((void)0, NULL);
    CHECK_WITH(a.k_dim = 64, "k_dim=64, v_dim=128 must be 128 and 128");
    CHECK_WITH(a.v_dim = 256, "k_dim=128, v_dim=256 must be 128 and 128");
    CHECK_WITH(a.nk = 0, "nv=32 must be a positive multiple of nk=0");
    CHECK_WITH(a.nv = 0, "nv=0 must be a positive multiple");
    CHECK_WITH(a.nk = 12, "nv=32 must be a positive multiple of nk=12");
    CHECK_WITH(a.nv = 65536, "must fit the grid");
    CHECK_WITH(a.batch = 65536, "must fit the grid");
    CHECK_WITH((a.num_chunks = 0x80000000u, a.is_varlen = true), "must fit the grid");
    CHECK_WITH(a.qk_stride = 2047, "strides (qk=2047, v=8200, gb=64) must cover");
    CHECK_WITH(a.v_stride = 4095, "must cover");
    CHECK_WITH(a.gb_stride = 31, "must cover");
    CHECK_WITH(a.num_chunks = 4, "num_chunks=4 must be 3 for seq_len=130");
    CHECK_WITH(a.num_chunks = 2, "num_chunks=2 must be 3 for seq_len=130");
    CHECK_WITH(a.seq_len = 128, "num_chunks=3 must be 2 for seq_len=128");
    CHECK_WITH(a.total_tokens = 260, NULL);
    CHECK_WITH(a.total_tokens = 259, "exceed the 259 rows given");
    CHECK_WITH((a.batch = 1 << 15, a.seq_len = 1 << 17, a.num_chunks = 1 << 11, a.total_tokens = 1),
               "batch=32768 sequences of 131072 tokens exceed the 1 rows given"); /* 2^32 */
}

static void empty_calls(void **state)
{
    (void)state;
    CHECK_WITH((a = (struct gdn_args){0}), NULL);
    CHECK_WITH((a.batch = 0, a.query = 0), NULL);
    CHECK_WITH((a.seq_len = 0, a.num_chunks = 0), NULL);
    CHECK_WITH((a.num_chunks = 0, a.is_varlen = true), NULL);
    CHECK_WITH((a.seq_len = 0, a.is_varlen = true, a.cu_seqlens = 4), NULL);
    struct gdn_args a = good;
    assert_false(gdn_is_empty(&a));
    a.is_varlen = true;
    a.seq_len = 0;
    assert_false(gdn_is_empty(&a));
}

static void pointer_checks(void **state)
{
    static const uint64_t table[2] = {0x1000, 0x2000}, null_entry[2] = {0x1000, 0},
                          odd_entry[2] = {0x1008, 0x2000};

    (void)state;
    CHECK_WITH(a.h_state = 0x1008, "h_state=0x1008 must be an address aligned to 16 bytes");
    CHECK_WITH((a.h_state = 0x1008, a.h_state_is_table = true), NULL);
    CHECK_WITH((a.h_state = 0x1004, a.h_state_is_table = true), "aligned to 8 bytes");
    CHECK_WITH(a.query = 0, "query=0x0 must be an address");
    CHECK_WITH(a.query += 1, "query=0x10001 must be an address aligned to 2 bytes");
    CHECK_WITH((a.query += 2, a.key += 2, a.value += 2), NULL);
    CHECK_WITH(a.key += 1, "key=");
    CHECK_WITH(a.value += 1, "value=");
    CHECK_WITH(a.gate += 2, "gate=0x20002 must be an address aligned to 4 bytes");
    CHECK_WITH(a.beta += 2, "beta=");
    CHECK_WITH(a.output += 2, "output=0x30002 must be an address aligned to 16 bytes");
    CHECK_WITH(a.w += 8, "w=0x40008");
    CHECK_WITH(a.u += 8, "u=0x50008");
    CHECK_WITH(a.s += 8, "s=0x60008");
    CHECK_WITH(a.uc += 8, "uc=0x70008");
    CHECK_WITH(a.gc += 8, "gc=0x80008");
    CHECK_WITH(a.is_varlen = true, "a varlen call needs cu_seqlens");
    CHECK_WITH((a.is_varlen = true, a.cu_seqlens = 0x90002), "a varlen call needs cu_seqlens");
    CHECK_WITH(a.cu_seqlens = 4, "cu_seqlens is given but is_varlen is false");
    CHECK_WITH((a.h_state_is_table = true, a.h_state_host = table), NULL);
    CHECK_WITH((a.h_state_is_table = true, a.h_state_host = null_entry), "h_state[1]=0x0");
    CHECK_WITH((a.h_state_is_table = true, a.h_state_host = odd_entry), "h_state[0]=0x1008");
}

static void offset_checks(void **state)
{
    static const int32_t rising[3] = {0, 130, 260}, negative[3] = {-1, 130, 260},
                         falling[3] = {0, 130, 129}, empty_middle[3] = {0, 0, 130},
                         shorter[3] = {0, 64, 128}, nobody[3] = {7, 7, 7};

    (void)state;
#define VARLEN(offsets) (a.is_varlen = true, a.cu_seqlens = 0x90000, a.cu_seqlens_host = (offsets))
    CHECK_WITH(VARLEN(rising), NULL);
    CHECK_WITH(VARLEN(empty_middle), NULL);
    CHECK_WITH(VARLEN(negative), "cu_seqlens[0]=-1 must not be negative");
    CHECK_WITH(VARLEN(falling), "cu_seqlens must not decrease: [2]=129 follows 130");
    CHECK_WITH(VARLEN(shorter), "num_chunks=3 must be 1, the maximum over the sequences");
    CHECK_WITH((VARLEN(rising), a.num_chunks = 0), "num_chunks=0 must be 3, the maximum");
    CHECK_WITH((VARLEN(falling), a.num_chunks = 0), "cu_seqlens must not decrease");
    CHECK_WITH((VARLEN(nobody), a.num_chunks = 0), NULL);
    CHECK_WITH((VARLEN(nobody), a.num_chunks = 1), "num_chunks=1 must be 0, the maximum");
    CHECK_WITH((VARLEN(rising), a.num_chunks = 0, a.batch = 0), NULL);
    CHECK_WITH((VARLEN(rising), a.total_tokens = 260), NULL);
    CHECK_WITH((VARLEN(rising), a.total_tokens = 259),
               "cu_seqlens[2]=260 exceeds the 259 rows given");
}

static void scratch(void **state)
{
    static const int32_t cu[3] = {0, 65, 66};
    struct gdn_args args = good;
    struct gdn_scratch sizes;

    (void)state;
    gdn_scratch_sizes(&args, &sizes);
    assert_int_equal(sizes.blocks, 2 * 3 * 32);
    assert_int_equal(sizes.w + sizes.u + sizes.s + sizes.uc + sizes.gc, sizes.blocks * 82176);
    assert_int_equal(sizes.gc, sizes.blocks * 256);
    args.is_varlen = true;
    gdn_scratch_sizes(&args, &sizes);
    assert_int_equal(sizes.blocks, 2 * 3 * 32);
    args.cu_seqlens_host = cu;
    gdn_scratch_sizes(&args, &sizes);
    assert_int_equal(sizes.blocks, (2 + 1) * 32);
    args = good;
    args.batch = 65535;
    args.num_chunks = 1 << 20;
    gdn_scratch_sizes(&args, &sizes);
    assert_int_equal(sizes.s, 65535ull * (1 << 20) * 32 * 32768);
    /* 2^49 blocks: 2^64 bytes of S, which must not count as none. */
    args.batch = 1 << 15;
    args.seq_len = UINT32_MAX;
    args.num_chunks = 1 << 26;
    args.nv = 1 << 8;
    args.v_stride = args.nv * 128;
    args.gb_stride = args.nv * 2;
    gdn_scratch_sizes(&args, &sizes);
    assert_true(sizes.s == UINT64_MAX && sizes.gc == UINT64_C(1) << 57);
    args.s_bytes = 1 << 20;
    checks_as(&args, "scratch s has 1048576 bytes and needs 18446744073709551615");
    args.batch = args.num_chunks = args.nv = UINT32_MAX;
    gdn_scratch_sizes(&args, &sizes);
    assert_true(sizes.blocks == UINT64_MAX && sizes.w == UINT64_MAX && sizes.gc == UINT64_MAX);

    CHECK_WITH((a.w_bytes = 192 * 16384, a.u_bytes = 192 * 16384, a.s_bytes = 192 * 32768,
                a.uc_bytes = 192 * 16384, a.gc_bytes = 192 * 256),
               NULL);
    CHECK_WITH(a.w_bytes = 192 * 16384 - 1, "scratch w has 3145727 bytes and needs 3145728");
    CHECK_WITH(a.u_bytes = 1, "scratch u has 1 bytes");
    CHECK_WITH(a.s_bytes = 1, "scratch s has 1 bytes");
    CHECK_WITH(a.uc_bytes = 1, "scratch uc has 1 bytes");
    CHECK_WITH(a.gc_bytes = 1, "scratch gc has 1 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_checks),   cmocka_unit_test(empty_calls),
        cmocka_unit_test(pointer_checks), cmocka_unit_test(offset_checks),
        cmocka_unit_test(scratch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
