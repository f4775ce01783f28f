/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dotprod.c - ARM with FEAT_DotProd: sdot. */
#define VEC_DOTPROD 1
#include "plugins/common/vec_neon.h"

#define BLOCK_QUANTS 4
#define BLOCK_FLOATS 2
#include "plugins/llamafile/ahead_arm.h"

#include "plugins/llamafile/product.h"
#include "plugins/llamafile/stages.h"

LEVEL_OPS(dotprod);
