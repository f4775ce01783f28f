/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 F, BW, VL and DQ, with VNNI. */
#define SIMD avx512
#define VEC_VNNI 1

#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define ROWS_PAIRED
#define BLOCK_FLOATS 4
#define DEQUANTIZES 0

/* As on level avx512_vbmi. */
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx512_vnni);
