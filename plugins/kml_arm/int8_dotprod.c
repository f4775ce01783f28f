/* SPDX-License-Identifier: Apache-2.0 */
/* int8_dotprod.c - ARM with FEAT_DotProd: sdot. */
#include "plugins/kml_arm/int8.h"

#define VEC_DOTPROD 1
#include "plugins/common/int8/tuning_neon.h"

LEVEL_OPS(dotprod);
