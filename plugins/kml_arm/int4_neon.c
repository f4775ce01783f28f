/* SPDX-License-Identifier: Apache-2.0 */
/* int4_neon.c - any ARM of 64 bits. */
#define SIMD neon
#include "plugins/common/int4_group/tuning_neon.h"

#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(neon);
