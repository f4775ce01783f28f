/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_arm_bf16.c - attention by bfdot where keys and values are bfloat16; else in float32. */
#define SIMD neon
#define VEC_BF16 1
#define ROUNDED_PAIRS 1

#define MOST_ROWS 6
#define MOST_PAIR_ROWS 6
#define MOST_QUERIES 64

#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

ATTENTION_OPS(arm_bf16);
ROWS_LEVEL(arm_bf16);
