/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_group/tuning_neon.h - weights of 4 bits on ARM: its figures, by instructions counted
 * (tests/bench/README). Include the backend's header first and, where the CPU has them, define VEC_DOTPROD
 * (sdot), VEC_I8MM (usmmla) or VEC_SVE (products by SVE, the rest by NEON) as 1.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_TUNING_NEON_H
#define KT_PLUGINS_COMMON_INT4_GROUP_TUNING_NEON_H

#include "plugins/common/simd/neon_int8.h"

#define AHEAD 1024
#define ROWS_PAIRED VEC_I8MM
#ifdef VEC_SVE
#define ROWS_WIDE (__ARM_FEATURE_SVE_BITS >= 512 ? 1 : 0)
#define ROWS_TILE (ROWS_WIDE ? 0 : 4)
#define NEAR_ROWS 3
#define EXPAND_ROWS 0
#elif VEC_DOTPROD
#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 3
#define EXPAND_ROWS (VEC_I8MM ? 6 : 20)
#else
#define ROWS_WIDE 0
#define ROWS_TILE 2
#define NEAR_ROWS 1
#define EXPAND_ROWS 0
#endif

#include "plugins/common/int4_group/kernel_tmpl.h"

#endif
