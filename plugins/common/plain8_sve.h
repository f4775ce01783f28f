/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain8_sve.h - int8 weights on ARM with SVE: its figures. Include the backend's header first. What is not
 * the product is NEON's, which every CPU with SVE has.
 */
#ifndef KT_PLUGINS_PLAIN8_SVE_H
#define KT_PLUGINS_PLAIN8_SVE_H

#include "plugins/common/int8_neon.h"

#define ROWS_WIDE (__ARM_FEATURE_SVE_BITS >= 512 ? 1 : 0)
#define ROWS_TILE (ROWS_WIDE ? 0 : 8)
#define NEAR_ROWS 3
#define MULTIPLY_FILE "plugins/common/multiply_sve.h"

#include "plugins/common/plain8_product.h"

#endif
