/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 with VNNI: vpdpbusd on 512 bits. */
#define SIMD avx512
#define VEC_VNNI 1

#define MR_PANEL 8
#define MR_TILE 0
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 15
#define DEQUANT_MIN_ROWS 16

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(avx512_vnni);
