/* SPDX-License-Identifier: Apache-2.0 */
/* int8_i8mm.c - ARM with FEAT_I8MM: usdot for one row, usmmla for more. */
#include "plugins/kml_arm/int8.h"

#define VEC_DOTPROD 1
#define VEC_I8MM 1
#include "plugins/common/int8/tuning_neon.h"

LEVEL_OPS(i8mm);
