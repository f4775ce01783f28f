/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin bf16 to. */
#include "tests/checkkernel/check.h"

static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16, KT_DTYPE_NONE};
static const struct crossover crossovers[] = {
    {"amx", 2},
    {"arm_bf16", 3},
    {NULL, 0},
};

const struct model bf16_model = {
    .plugin = "bf16",
    .dtypes = dtypes,
    .weight = round_bf16,
    .terms = 1,
    .own_order = "amx avx512_bf16 arm_bf16",
    .crossovers = crossovers,
    .read_row = model_read_bf16,
};
