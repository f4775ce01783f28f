/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - attention in float32. */
#define SIMD avx512

#define MOST_ROWS 8
#define MOST_PAIR_ROWS 8
#define MOST_QUERIES 64

#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

ATTENTION_OPS(avx512);
ROWS_LEVEL(avx512);
