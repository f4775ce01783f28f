/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_avx512.h - int8 weights with AVX-512: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_AVX512_H
#define KT_PLUGINS_COMMON_INT8_TUNING_AVX512_H

#define MR_PANEL 8
#define MR_TILE 0
#define MR_EXACT 12
#define STREAMED_MAX_ROWS 12

#endif
