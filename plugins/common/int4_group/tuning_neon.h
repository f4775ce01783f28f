/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/tuning_neon.h - weights of 4 bits on ARM: what a level of int4_group/kernel_tmpl.h sets, by
 * instructions counted (tests/bench/README). VEC_SVE as 1: products by SVE, the rest by NEON.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_TUNING_NEON_H
#define KT_PLUGINS_COMMON_INT4_GROUP_TUNING_NEON_H

#include "plugins/common/simd/features.h"

#ifndef VEC_SVE
#define VEC_SVE 0
#endif

#define MICROKERNEL_MMLA VEC_I8MM
#if VEC_SVE
#define MR_PANEL (__ARM_FEATURE_SVE_BITS >= 512 ? 1 : 0)
#define MR_TILE (MR_PANEL ? 0 : 4)
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 3
#define DEQUANT_MIN_ROWS 0
#elif VEC_DOTPROD
#define MR_PANEL 0
#define MR_TILE 4
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 3
#define DEQUANT_MIN_ROWS (VEC_I8MM ? 6 : 20)
#else
#define MR_PANEL 0
#define MR_TILE 2
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 1
#define DEQUANT_MIN_ROWS 0
#endif

#endif
