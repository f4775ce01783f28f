/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without VNNI. */
#include "plugins/amx_int4/amx_int4.h"

#define VEC_VNNI 0
#include "plugins/common/simd/avx512_int8.h"

#define ROWS_WIDE 8
#define ROWS_TILE 0
#define NEAR_ROWS 8
#define AHEAD 0
#define EXPAND_ROWS 0

#include "plugins/common/int4_group/kernel_tmpl.h"

LEVEL_OPS(avx512);
