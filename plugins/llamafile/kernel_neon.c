/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - any ARM of 64 bits. */
#define SIMD neon

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define DEQUANTIZES 0
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(neon);
