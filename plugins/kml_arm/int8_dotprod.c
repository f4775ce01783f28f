/* SPDX-License-Identifier: Apache-2.0 */
/* int8_dotprod.c - ARM with FEAT_DotProd: sdot. */
#define SIMD neon
#define VEC_DOTPROD 1
#include "plugins/common/int8/tuning_neon.h"

#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(dotprod);
