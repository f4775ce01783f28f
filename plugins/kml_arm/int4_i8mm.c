/* SPDX-License-Identifier: Apache-2.0 */
/* int4_i8mm.c - ARM with FEAT_I8MM: sdot for few rows, usmmla for more, of codes made int8. */
#define SIMD neon
#define VEC_DOTPROD 1
#define VEC_I8MM 1
#include "plugins/common/int4_group/tuning_neon.h"

#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(i8mm);
