/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_i8mm.c - ARM with FEAT_I8MM: sdot for one row, smmla for more. */
#define SIMD neon
#define VEC_DOTPROD 1
#define VEC_I8MM 1

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define DEQUANTIZES 0
#define DOTS_SMMLA
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(i8mm);
