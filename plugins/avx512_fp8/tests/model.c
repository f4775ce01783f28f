/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin avx512_fp8 to. */
#include "tests/checkkernel/check.h"

static const uint32_t dtypes[] = {KT_DTYPE_F8_E4M3, KT_DTYPE_NONE};
static const struct crossover crossovers[] = {
    {"amx", 2}, {"avx512", 6}, {"avx2", 2}, {"scalar", 8}, {NULL, 0},
};

const struct model avx512_fp8_model = {
    .plugin = "avx512_fp8",
    .dtypes = dtypes,
    .scaled = true,
    .weight = model_keep,
    .terms = 1,
    .own_order = "amx avx512_bf16 arm_bf16",
    .crossovers = crossovers,
    .rounded = true,
    .unrounded = "avx2",
    .read_row = model_read_bf16,
};
