/* SPDX-License-Identifier: Apache-2.0 */
/* int8_sve512.c - ARM with SVE, vectors of 512 bits. */
#include "plugins/kml_arm/int8.h"

#include "plugins/common/int8/tuning_sve.h"

LEVEL_OPS(sve512);
