/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C: bfloat16 is widened to float32. */
#define SIMD avx2

#define MR_PANEL 0
#define MR_TILE 4
#define STREAMED_MAX_ROWS 2
#define PREFETCH_BYTES 0

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(avx2);
