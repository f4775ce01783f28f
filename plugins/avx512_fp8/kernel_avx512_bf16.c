/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - AVX-512 with vpermi2b (VBMI) and vdpbf16ps. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define TILED 0
/* Codes cost next to nothing beside vdpbf16ps, so panels are never dequantized. */
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = UINT32_MAX
#define GEMV_MAX_ROWS 8
#define MR_PANEL 8
#define MR_TILE 0
#define DECODER_H "plugins/avx512_fp8/decode_vbmi.h"

#include "plugins/avx512_fp8/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, avx512_bf16);
