/* SPDX-License-Identifier: Apache-2.0 */
/* int8_neon.c - any ARM of 64 bits. */
#define SIMD neon
#include "plugins/common/int8/tuning_neon.h"

#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(neon);
