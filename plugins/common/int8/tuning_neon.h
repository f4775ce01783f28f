/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/tuning_neon.h - int8 weights on ARM: its figures. Include the backend's header first and, where the
 * CPU has them, define VEC_DOTPROD (sdot) and VEC_I8MM (usdot, usmmla) as 1.
 */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_NEON_H
#define KT_PLUGINS_COMMON_INT8_TUNING_NEON_H

#include "plugins/common/simd/neon_int8.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define ROWS_PAIRED VEC_I8MM
#define NEAR_ROWS 3

#include "plugins/common/int8/kernel_tmpl.h"

#endif
