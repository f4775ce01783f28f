/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx_vnni.c - AVX2 with AVX-VNNI: vpdpbusd on 256 bits. */
#define SIMD avx2
#define VEC_VNNI 1

#define MR_PANEL 0
#define MR_TILE 4
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 3
#define DEQUANT_MIN_ROWS 16

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(avx_vnni);
