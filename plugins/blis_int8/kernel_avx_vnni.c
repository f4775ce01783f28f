/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx_vnni.c - AVX2 with AVX-VNNI: vpdpbusd on 256 bits. */
#define SIMD avx2
#define VEC_VNNI 1
#include "plugins/common/int8/tuning_avx2.h"

#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(avx_vnni);
