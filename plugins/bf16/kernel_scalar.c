/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#define SIMD scalar

#define MR_PANEL 0
#define MR_TILE 0
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 0

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(scalar);
