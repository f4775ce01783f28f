/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vbmi.c - AVX-512 F, BW, VL and DQ, with VNNI and VBMI. Formats whose codes are not looked up
 * are left to level avx512_vnni, as VBMI does nothing for them. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_VBMI 1

#define BLOCK_QUANTS 4
#define ROWS_BLOCKED
#define ROWS_SHARE_SCALE
#define BORROWS_VNNI
#define BLOCK_FLOATS 4
#define DEQUANTIZES 0

/* The machine's distance: README compares some. */
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx512_vbmi);
