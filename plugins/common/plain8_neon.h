/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain8_neon.h - int8 weights on ARM: its figures. Include the backend's header first and, where the CPU
 * has them, define VEC_DOTPROD (sdot) and VEC_I8MM (usdot, usmmla) as 1.
 */
#ifndef KT_PLUGINS_PLAIN8_NEON_H
#define KT_PLUGINS_PLAIN8_NEON_H

#include "plugins/common/int8_neon.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define ROWS_PAIRED VEC_I8MM
#define NEAR_ROWS 3

#include "plugins/common/plain8_product.h"

#endif
