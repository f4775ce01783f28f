/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_neon.c - any ARM of 64 bits. */
#include "plugins/kml_arm/kml_arm.h"

#include "plugins/common/plain8_neon.h"

LEVEL_OPS(neon);
