/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx_vnni.c - AVX2 with AVX-VNNI: vpdpbusd on 256 bits. One row and rare formats are left to
 * level avx2, whose products of such rows have the same bits. */
#define SIMD avx2
#define VEC_VNNI 1

#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define BORROWS_AVX2
#define BLOCK_FLOATS 2
#define DEQUANTIZES 0

/* As on level avx2. */
#define PREFETCH_BYTES 1536

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx_vnni);
