/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - the level of any CPU, in plain C. */
#define SIMD scalar

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define DEQUANTIZES 0
#define PREFETCH_BYTES 0

#include "plugins/llamafile/kernel_tmpl.h"

LLAMAFILE_LEVEL(scalar);
