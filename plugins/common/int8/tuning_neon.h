/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_neon.h - int8 weights on ARM: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_NEON_H
#define KT_PLUGINS_COMMON_INT8_TUNING_NEON_H

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define ROWS_PAIRED VEC_I8MM
#define NEAR_ROWS 3

#endif
