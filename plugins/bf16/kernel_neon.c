/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - any ARM of 64 bits: bfloat16 is widened to float32. */
#define SIMD neon

#define MR_PANEL 0
#define MR_TILE 4
#define STREAMED_MAX_ROWS 2
#define PREFETCH_BYTES 1024

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(neon);
