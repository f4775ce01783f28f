/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define VEC_VNNI 0
#include "plugins/common/int8_avx2.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2 /* two rows with sums for even and odd columns take 8 of 16 registers */
#define EXPANDS 0

/*
 * Measured on two cores of a Zen 3 (one row, weights from memory, other work beside it; reading alone
 * reaches 43 to 50 GB/s): q4_k 22 to 24 GB/s without prefetch, 27 at 512 bytes, 31 to 35 from 1280 to
 * 3072; q6_k 21, 25, 35 to 38 from 2048 to 3072; q8_0 27, 29, 33 to 36 from 1024 to 1536; bf16 35 to 38
 * at 1280. prefetcht1 and prefetchnta, a second prefetch 2 to 8 KB ahead, and panels taking turns (2 to
 * 8 streams) are no better or worse.
 * From L2 one row takes 17 cycles a group of 32 columns with q4_k, 24 with q6_k and 20 with q8_0 (50 to
 * 75 GB/s): memory is the limit. Four rows take 14 to 18 cycles a row and group; there vpmaddubsw and
 * vpmaddwd share two ports, and the activations' broadcasts take half of the loads.
 */
#define AHEAD_Q2 1280
#define AHEAD_Q4 1536
#define AHEAD_Q5 2048
#define AHEAD_Q6 2560
#define AHEAD_Q8 1280
#define AHEAD_IQ4 1536
#define AHEAD_FLOATS 1280

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(avx2);
