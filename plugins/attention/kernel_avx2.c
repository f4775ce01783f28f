/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - attention in float32. */
#define SIMD avx2

#define MOST_ROWS 6
#define MOST_PAIR_ROWS 4
#define MOST_QUERIES 64

#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

ATTENTION_OPS(avx2);
ROWS_LEVEL(avx2);
