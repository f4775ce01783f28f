/* SPDX-License-Identifier: Apache-2.0 */
/* int4_sve512.c - ARM with SVE, vectors of 512 bits. */
#include "plugins/kml_arm/int4.h"

#define VEC_SVE 1
#include "plugins/common/int4_group/tuning_neon.h"

LEVEL_OPS(sve512);
