/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/tuning_avx2.h - int8 weights with AVX2, FMA and F16C: its figures. Include the backend's header first
 * and define VEC_VNNI: 1 with the instructions that add to int32, else 0.
 */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_AVX2_H
#define KT_PLUGINS_COMMON_INT8_TUNING_AVX2_H

#include "plugins/common/simd/avx2_int8.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 3

#include "plugins/common/int8/kernel_tmpl.h"

#endif
