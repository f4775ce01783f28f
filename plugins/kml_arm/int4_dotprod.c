/* SPDX-License-Identifier: Apache-2.0 */
/* int4_dotprod.c - ARM with FEAT_DotProd: sdot. */
#include "plugins/kml_arm/int4.h"

#define VEC_DOTPROD 1
#include "plugins/common/int4_group/tuning_neon.h"

LEVEL_OPS(dotprod);
