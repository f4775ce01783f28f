/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#include "plugins/common/simd/scalar_int8.h"

#define PAIRS 0
#define ROWS_WIDE 0
#define ROWS_TILE 0
#define NEAR_ROWS 0
#define AHEAD 0

#include "plugins/bf16/product.h"

LEVEL_OPS(scalar);
