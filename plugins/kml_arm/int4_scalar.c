/* SPDX-License-Identifier: Apache-2.0 */
/* int4_scalar.c - plain C: what the other levels are checked against. */
#define SIMD scalar
#include "plugins/common/int4_group/tuning_scalar.h"

#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(scalar);
