/* A call that the GDN launcher takes: two sequences of 130 tokens. The addresses are made up. */
#ifndef TESTS_UNIT_GDN_SAMPLE_H
#define TESTS_UNIT_GDN_SAMPLE_H

#include "ops/gdn.h"

static const struct gdn_args good = {
    .h_state = 0x1000,
    .query = 0x10000,
    .key = 0x11000,
    .value = 0x12000,
    .gate = 0x20000,
    .beta = 0x20080,
    .output = 0x30000,
    .w = 0x40000,
    .u = 0x50000,
    .s = 0x60000,
    .uc = 0x70000,
    .gc = 0x80000,
    .batch = 2,
    .seq_len = 130,
    .num_chunks = 3,
    .nk = 16,
    .nv = 32,
    .k_dim = 128,
    .v_dim = 128,
    .qk_stride = 8192,
    .v_stride = 8200,
    .gb_stride = 64,
    .cu_chunks = 0x99,
};

#endif
