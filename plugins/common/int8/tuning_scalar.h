/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_scalar.h - int8 weights in plain C: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_SCALAR_H
#define KT_PLUGINS_COMMON_INT8_TUNING_SCALAR_H

#define MR_PANEL 0
#define MR_TILE 0
#define STREAMED_MAX_ROWS 0

#endif
