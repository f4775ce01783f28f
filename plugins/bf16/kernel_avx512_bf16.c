/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - AVX-512 with vdpbf16ps. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define MR_PANEL 8
#define MR_TILE 0
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = UINT32_MAX

#include "plugins/bf16/kernel_tmpl.h"

BF16_LEVEL(avx512_bf16);
