/* SPDX-License-Identifier: Apache-2.0 */
/* int8_scalar.c - plain C: what the other levels are checked against. */
#define SIMD scalar
#include "plugins/common/int8/tuning_scalar.h"

#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(scalar);
