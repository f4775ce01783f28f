/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - the level of any CPU, in plain C. */
#include "plugins/common/simd/scalar_int8.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 4
#define EXPANDS 0
#define AHEAD 0

#include "plugins/llamafile/strips.h"

#include "plugins/llamafile/stages.h"

LEVEL_OPS(scalar);
