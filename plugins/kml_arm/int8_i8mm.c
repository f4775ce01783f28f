/* SPDX-License-Identifier: Apache-2.0 */
/* int8_i8mm.c - ARM with FEAT_I8MM: usdot for one row, usmmla for more. */
#define SIMD neon
#define VEC_DOTPROD 1
#define VEC_I8MM 1
#include "plugins/common/int8/tuning_neon.h"

#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(i8mm);
