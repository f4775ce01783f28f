/* SPDX-License-Identifier: Apache-2.0 */
/* plain8_scalar.h - int8 weights in plain C: its figures. Include the backend's header first. */
#ifndef KT_PLUGINS_PLAIN8_SCALAR_H
#define KT_PLUGINS_PLAIN8_SCALAR_H

#include "plugins/common/int8_scalar.h"

#define ROWS_WIDE 0
#define ROWS_TILE 0
#define NEAR_ROWS 0

#include "plugins/common/plain8_product.h"

#endif
