/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/amx_int8/amx_int8.h"

#include "plugins/common/int8/layout_tmpl.h"
