/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define SIMD avx2
#include "plugins/common/int8/tuning_avx2.h"

#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(avx2);
