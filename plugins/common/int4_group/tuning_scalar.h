/* SPDX-License-Identifier: Apache-2.0 */
/* int4_group/tuning_scalar.h - weights of 4 bits in plain C: its figures. Include the backend's header first.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_TUNING_SCALAR_H
#define KT_PLUGINS_COMMON_INT4_GROUP_TUNING_SCALAR_H

#include "plugins/common/simd/scalar_int8.h"

#define ROWS_WIDE 0
#define ROWS_TILE 0
#define NEAR_ROWS 0
#define AHEAD 1024
#define EXPAND_ROWS 0

#include "plugins/common/int4_group/kernel_tmpl.h"

#endif
