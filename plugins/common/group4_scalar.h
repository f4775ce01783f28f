/* SPDX-License-Identifier: Apache-2.0 */
/* group4_scalar.h - weights of 4 bits in plain C: its figures. Include the backend's header first. */
#ifndef KT_PLUGINS_GROUP4_SCALAR_H
#define KT_PLUGINS_GROUP4_SCALAR_H

#include "plugins/common/int8_scalar.h"

#define ROWS_WIDE 0
#define ROWS_TILE 0
#define NEAR_ROWS 0
#define AHEAD 1024
#define EXPAND_ROWS 0

#include "plugins/common/group4_product.h"

#endif
