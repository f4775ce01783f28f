/* SPDX-License-Identifier: Apache-2.0 */
/* int4_dotprod.c - ARM with FEAT_DotProd: sdot. */
#define SIMD neon
#define VEC_DOTPROD 1
#include "plugins/common/int4_group/tuning_neon.h"

#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(dotprod);
