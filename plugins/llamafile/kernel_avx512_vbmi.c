/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vbmi.c - AVX-512 F, BW, VL and DQ, with VNNI and VBMI. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_VBMI 1

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define DEQUANTIZES 0

/*
 * Measured on two cores of a Zen 4 (weights from memory, reading alone 55 GB/s), prefetching 512 bytes, 2, 4,
 * 6, 8 and 16 KB ahead, in GB/s:
 *     q4_k     1 row  36 26 37 47 45 44    2 rows 26 24 37 46 50 50    4 rows 17 21 30 33 33 33
 *     iq2_xxs  1 row  31 24 38 47 51 53    2 rows 24 22 33 37 37 37    4 rows 14 18 21 21 21 21
 *     q8_0     1 row  52 35 34 46 38 39    2 rows 46 28 35 41 37 39    4 rows 24 23 33 37 38 42
 * On a Xeon, prototypes with this layout were best at 512 to 1024 bytes.
 */
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx512_vbmi);
