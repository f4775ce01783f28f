/* SPDX-License-Identifier: Apache-2.0 */
/* int8_sve256.c - ARM with SVE, vectors of 256 bits. */
#define SIMD neon
#include "plugins/common/int8/tuning_sve.h"

#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(sve256);
