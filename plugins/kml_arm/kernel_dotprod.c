/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_dotprod.c - ARM with FEAT_DotProd: sdot. */
#include "plugins/kml_arm/kml_arm.h"

#define VEC_DOTPROD 1
#include "plugins/common/plain8_neon.h"

LEVEL_OPS(dotprod);
