/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - any ARM of 64 bits: bfloat16 is widened to float32. */
#define SIMD neon

#define MR_PANEL 0
#define MR_TILE 4
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 2

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(neon);
