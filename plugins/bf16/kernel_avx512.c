/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without BF16: bfloat16 is widened to float32. */
#define SIMD avx512

#define MR_PANEL 8
#define MR_TILE 0
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = UINT32_MAX

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(avx512);
