/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/tuning_avx512.h - int8 weights with AVX-512: its figures. Include the backend's header first and
 * define VEC_VNNI: 1 with the instructions that add to int32, else 0.
 */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_AVX512_H
#define KT_PLUGINS_COMMON_INT8_TUNING_AVX512_H

#include "plugins/common/simd/avx512_int8.h"

#define ROWS_WIDE 8
#define ROWS_TILE 0
#define ROWS_EACH 12
#define NEAR_ROWS 12

#include "plugins/common/int8/kernel_tmpl.h"

#endif
