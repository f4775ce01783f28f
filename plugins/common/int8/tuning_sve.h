/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/tuning_sve.h - int8 weights on ARM with SVE: its figures. Include the backend's header first. What is
 * not the product is NEON's, which every CPU with SVE has.
 */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_SVE_H
#define KT_PLUGINS_COMMON_INT8_TUNING_SVE_H

#include "plugins/common/simd/neon_int8.h"

#define ROWS_WIDE (__ARM_FEATURE_SVE_BITS >= 512 ? 1 : 0)
#define ROWS_TILE (ROWS_WIDE ? 0 : 8)
#define NEAR_ROWS 3
#define MULTIPLY_FILE "plugins/common/int8/microkernel_sve.h"

#include "plugins/common/int8/kernel_tmpl.h"

#endif
