/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin rawint4 to. */
#include "tests/checkkernel/check.h"

static const uint32_t dtypes[] = {KT_DTYPE_INT4, KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};
static const struct crossover crossovers[] = {
    {"amx", 6}, {"avx512_bf16", 24}, {"avx512", 24}, {"scalar", 8}, {NULL, 0},
};

const struct model rawint4_model = {
    .plugin = "rawint4",
    .dtypes = dtypes,
    .scaled = true,
    .weight = model_keep,
    .terms = 1,
    .own_order = "amx avx512_bf16 arm_bf16",
    .crossovers = crossovers,
    .rounded = true,
    .expanded = "amx",
    .read_row = model_read_bf16_sums,
    .fixed_point = "amx avx512 avx2",
};
