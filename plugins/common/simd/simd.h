/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/simd.h - the only door to the sets of vectors. They all have the same functions: simd/scalar.h,
 * scalar_int8.h, scalar_lookup.h and scalar_points.h say what each does. A kernel_LEVEL.c says which set it
 * wants, and what its CPU has beside the base of it, before it includes anything:
 *
 *   SIMD          scalar, avx2, avx512 or neon
 *   VEC_VNNI      1: x86's products of bytes that are added to int32
 *   VEC_VBMI      1: AVX512_VBMI, which looks bytes up
 *   VEC_BF16      1: products of pairs of bfloat16
 *   VEC_GATHERS   1: gathers of AVX-512 take no longer than the loads that they are made of
 *   VEC_DOTPROD   1: ARM's sdot
 *   VEC_I8MM      1: ARM's usdot and usmmla
 *   PREFETCH_FAR  1: AVX2 prefetches into L2, for a kernel that prefetches far ahead
 *
 * All but SIMD are 0 unless they are defined.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_SIMD_H
#define KT_PLUGINS_COMMON_SIMD_SIMD_H

#define SIMD_scalar 1
#define SIMD_avx2 2
#define SIMD_avx512 3
#define SIMD_neon 4
#define SIMD_NUMBER_OF(set) SIMD_##set
#define SIMD_NUMBER(set) SIMD_NUMBER_OF(set)

#ifndef SIMD
#error "simd/simd.h: define SIMD as scalar, avx2, avx512 or neon"
#elif SIMD_NUMBER(SIMD) == SIMD_scalar
#include "plugins/common/simd/scalar_int8.h"
#include "plugins/common/simd/scalar_lookup.h"
#include "plugins/common/simd/scalar_points.h"
#elif SIMD_NUMBER(SIMD) == SIMD_avx2
#include "plugins/common/simd/avx2_int8.h"
#include "plugins/common/simd/avx2_lookup.h"
#include "plugins/common/simd/avx2_points.h"
#include "plugins/common/simd/avx2_sums.h"
#elif SIMD_NUMBER(SIMD) == SIMD_avx512
#include "plugins/common/simd/avx512_groups.h"
#include "plugins/common/simd/avx512_int8.h"
#include "plugins/common/simd/avx512_lookup.h"
#include "plugins/common/simd/avx512_points.h"
#elif SIMD_NUMBER(SIMD) == SIMD_neon
#include "plugins/common/simd/neon_int8.h"
#include "plugins/common/simd/neon_points.h"
#else
#error "simd/simd.h: SIMD is none of scalar, avx2, avx512 and neon"
#endif

#endif
