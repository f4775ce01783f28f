/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_arm_bf16.c - ARM with FEAT_BF16: bfdot for one row or two, bfmmla for more. */
#define SIMD neon
#define VEC_DOTPROD 1
#define VEC_BF16 1

#define MR_PANEL 0
#define MR_TILE 0
#define MICROKERNEL_MMLA 1
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 2

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(arm_bf16);
