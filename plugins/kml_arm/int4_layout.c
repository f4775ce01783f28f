/* SPDX-License-Identifier: Apache-2.0 */
/* int4_layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/kml_arm/int4.h"

#include "plugins/common/int4_group/layout_tmpl.h"
