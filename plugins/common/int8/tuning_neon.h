/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_neon.h - int8 weights on ARM: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_NEON_H
#define KT_PLUGINS_COMMON_INT8_TUNING_NEON_H

#define MR_PANEL 0
#define MR_TILE 4
#define MICROKERNEL_MMLA VEC_I8MM
#define STREAMED_MAX_ROWS 3

#endif
