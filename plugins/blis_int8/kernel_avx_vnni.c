/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx_vnni.c - AVX2 with AVX-VNNI: vpdpbusd on 256 bits. */
#include "plugins/blis_int8/blis_int8.h"

#define VEC_VNNI 1
#include "plugins/common/int8/tuning_avx2.h"

LEVEL_OPS(avx_vnni);
