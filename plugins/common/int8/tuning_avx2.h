/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_avx2.h - int8 weights with AVX2, FMA and F16C: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_AVX2_H
#define KT_PLUGINS_COMMON_INT8_TUNING_AVX2_H

#define MR_PANEL 0
#define MR_TILE 4
#define STREAMED_MAX_ROWS 3

#endif
