/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_scalar.h - int8 weights in plain C: its figures. Include the backend's header first. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_SCALAR_H
#define KT_PLUGINS_COMMON_INT8_TUNING_SCALAR_H

#include "plugins/common/simd/scalar_int8.h"

#define ROWS_WIDE 0
#define ROWS_TILE 0
#define NEAR_ROWS 0

#include "plugins/common/int8/kernel_tmpl.h"

#endif
