/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_vnni.c - AVX-512 with VNNI: vpdpbusd on 512 bits. */
#define SIMD avx512
#define VEC_VNNI 1
#include "plugins/common/int8/tuning_avx512.h"

#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(avx512_vnni);
