/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - any ARM of 64 bits. */
#include "plugins/common/simd/neon_int8.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#define EXPANDS 0
#define AHEAD 0

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(neon);
