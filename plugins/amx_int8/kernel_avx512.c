/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without VNNI. */
#include "plugins/amx_int8/amx_int8.h"

#define VEC_VNNI 0
#include "plugins/common/int8/tuning_avx512.h"

LEVEL_OPS(avx512);
