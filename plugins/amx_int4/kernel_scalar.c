/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#define SIMD scalar
#include "plugins/common/int4_group/tuning_scalar.h"

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(scalar);
