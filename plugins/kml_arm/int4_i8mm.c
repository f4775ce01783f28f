/* SPDX-License-Identifier: Apache-2.0 */
/* int4_i8mm.c - ARM with FEAT_I8MM: sdot for few rows, usmmla for more, of codes made int8. */
#include "plugins/kml_arm/int4.h"

#define VEC_DOTPROD 1
#define VEC_I8MM 1
#include "plugins/common/int4_group/tuning_neon.h"

LEVEL_OPS(i8mm);
