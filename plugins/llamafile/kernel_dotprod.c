/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dotprod.c - ARM with FEAT_DotProd: sdot. */
#define SIMD neon
#define VEC_DOTPROD 1

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define DEQUANTIZES 0
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(dotprod);
