/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx_vnni.c - AVX2 with AVX-VNNI: vpdpbusd on 256 bits. */
#include "plugins/amx_int4/amx_int4.h"

#define VEC_VNNI 1
#include "plugins/common/simd/avx2_int8.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 3
#define AHEAD 0
#define EXPAND_ROWS 16

#include "plugins/common/int4_group/kernel_tmpl.h"

LEVEL_OPS(avx_vnni);
