/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product, and for few rows. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define TILED 1
#define TUNING .prefetch_bytes = 3072
#define NEAR_AHEAD 768
#define GEMV_MAX_ROWS 2
#define VECTOR_MAX_ROWS 1
#define DECODER_H "plugins/avx512_fp8/decode_vbmi.h"

#include "plugins/avx512_fp8/product_tmpl.h"

#include "plugins/common/coded/kernel_amx_tmpl.h"

CODED_AMX_LEVEL(avx512_fp8);
