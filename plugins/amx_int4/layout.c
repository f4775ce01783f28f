/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/layout_tmpl.h"
