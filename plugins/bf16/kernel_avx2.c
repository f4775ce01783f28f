/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C: bfloat16 is widened to float32. */
#define SIMD avx2

#define MR_PANEL 0
#define MR_TILE 6
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 2

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(avx2);
