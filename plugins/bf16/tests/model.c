/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what checkkernel holds the plugin bf16 to. */
#include "tests/checkkernel/check.h"

static const struct crossover crossovers[] = {
    {"amx", 2},
    {"arm_bf16", 3},
    {NULL, 0},
};

const struct model bf16_model = {
    .plugin = "bf16",
    .dtypes = model_float_dtypes,
    .weight = round_bf16,
    .terms = 1,
    .own_order = "amx avx512_bf16 arm_bf16",
    .crossovers = crossovers,
    .read_row = model_read_bf16,
};
