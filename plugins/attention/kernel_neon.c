/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - attention in float32. */
#define SIMD neon

#define MOST_ROWS 6
#define MOST_PAIR_ROWS 4
#define MOST_QUERIES 64

#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

ATTENTION_OPS(neon);
ROWS_LEVEL(neon);
