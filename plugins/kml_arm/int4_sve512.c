/* SPDX-License-Identifier: Apache-2.0 */
/* int4_sve512.c - ARM with SVE, vectors of 512 bits. */
#define SIMD neon
#define VEC_SVE 1
#include "plugins/common/int4_group/tuning_neon.h"

#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(sve512);
