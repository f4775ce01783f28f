/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 with VNNI: vpdpbusd on 512 bits. */
#define SIMD avx512
#define VEC_VNNI 1

#define MR_PANEL 8
#define MR_TILE 0
#define STREAMED_MAX_ROWS 15
#define PREFETCH_BYTES 0
#define DEQUANT_MIN_ROWS 16

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(avx512_vnni);
