/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#include "plugins/common/vec_avx2.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2 /* two rows with sums for even and odd columns take 8 of 16 registers */

/*
 * Measured on two cores of a Zen 3 (one row, weights from memory, limit 38 to 45 GB/s): without
 * prefetch q4_k reads 22 to 24 GB/s, with 512 bytes 27, 1024 to 2048 28 to 32, 4096 24; q6_k 21, 25, 29
 * to 34, 29; q8_0, which reads two thirds faster anyway, 27, 29, 32 (1024) and 24 (4096). prefetcht1
 * is no different. From L2 one row takes 17 cycles a group of 32 columns with q4_k, 24 with q6_k and 20
 * with q8_0: 50 to 75 GB/s, so memory is the limit; vpmaddubsw and vpmaddwd share two ports, loads
 * have two. Four rows take 14 to 18 cycles a row and group.
 */
#define AHEAD_Q2 1024
#define AHEAD_Q4 1536
#define AHEAD_Q5 1536
#define AHEAD_Q6 2048
#define AHEAD_Q8 1024
#define AHEAD_IQ4 1536
#define AHEAD_FLOATS 1024

#include "plugins/llamafile/product.h"
#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx2);
