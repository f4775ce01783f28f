/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - attention in float32. */
#define SIMD scalar

#define MOST_ROWS 4
#define MOST_PAIR_ROWS 4
#define MOST_QUERIES 16

#include "plugins/attention/attend_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

ATTENTION_OPS(scalar);
ROWS_LEVEL(scalar);
