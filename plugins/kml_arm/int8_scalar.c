/* SPDX-License-Identifier: Apache-2.0 */
/* int8_scalar.c - plain C: what the other levels are checked against. */
#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/tuning_scalar.h"

LEVEL_OPS(scalar);
