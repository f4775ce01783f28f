/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without VNNI. */
#define SIMD avx512
#include "plugins/common/int8/tuning_avx512.h"

#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(avx512);
