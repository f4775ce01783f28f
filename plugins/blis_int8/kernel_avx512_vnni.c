/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 with VNNI: vpdpbusd on 512 bits. */
#include "plugins/blis_int8/blis_int8.h"

#define VEC_VNNI 1
#include "plugins/common/int8/tuning_avx512.h"

LEVEL_OPS(avx512_vnni);
