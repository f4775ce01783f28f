/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32: the own levels. */
#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/int8/layout_tmpl.h"
