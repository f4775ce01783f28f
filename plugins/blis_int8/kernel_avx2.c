/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#include "plugins/blis_int8/blis_int8.h"

#define VEC_VNNI 0
#include "plugins/common/int8/tuning_avx2.h"

LEVEL_OPS(avx2);
