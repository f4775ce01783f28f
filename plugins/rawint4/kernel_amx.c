/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_amx.c - AMX tiles, with AVX-512 for all that is not the product. Few rows are multiplied as
 * fixed-point numbers (fixed_point_tmpl.h): two vpdpbusd take half the time of two vdpbf16ps, and codes need
 * less unpacking.
 */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define TILED 1
#define TUNING .prefetch_bytes = 3072
#define NEAR_AHEAD 512
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 4
#define VECTOR_MAX_ROWS 5

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_amx_tmpl.h"

CODED_AMX_LEVEL(rawint4);
