/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#define SIMD scalar
#include "plugins/common/int8/tuning_scalar.h"

#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/int8/kernel_tmpl.h"

INT8_LEVEL(scalar);
