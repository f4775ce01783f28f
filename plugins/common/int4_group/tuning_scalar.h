/* SPDX-License-Identifier: Apache-2.0 */
/* int4_group/tuning_scalar.h - weights of 4 bits in plain C: what a level of int4_group/kernel_tmpl.h sets.
 */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_TUNING_SCALAR_H
#define KT_PLUGINS_COMMON_INT4_GROUP_TUNING_SCALAR_H

#define MR_PANEL 0
#define MR_TILE 0
#define TUNING .prefetch_bytes = 1024, .streamed_max_rows = 0
#define DEQUANT_MIN_ROWS 0

#endif
