/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/kml_arm/kml_arm.h"

#include "plugins/common/plain8_layout.h"
