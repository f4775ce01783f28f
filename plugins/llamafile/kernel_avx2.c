/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define SIMD avx2

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2 /* two rows with sums for even and odd columns take 8 of 16 registers */
#define DEQUANTIZES 0

/*
 * Measured on two cores of a Zen 4 (one row, weights from memory, reading alone 66 GB/s): q4_k 40 to 43 GB/s,
 * q6_k 39, q8_0 45, bf16 37, the same from 512 to 1536 bytes ahead, q6_k a tenth less at 2560. A Zen 3 (of 43
 * to 50 GB/s) wanted 1280 and more: q4_k 31 to 35 instead of 27, q8_0 33 to 36 instead of 29; prefetcht1 and
 * prefetchnta are no better there, nor are several streams.
 * From L2 one row takes 17 cycles a group of 32 columns with q4_k, 24 with q6_k and 20 with q8_0 (50 to
 * 75 GB/s): memory is the limit. Four rows take 14 to 18 cycles a row and group; there vpmaddubsw and
 * vpmaddwd share two ports, and the activations' broadcasts take half of the loads.
 */
#define PREFETCH_BYTES 1536

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(avx2);
