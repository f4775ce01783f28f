/* SPDX-License-Identifier: Apache-2.0 */
/* simd/features.h - what a set of vectors may have beside its base: what a kernel does not define is 0.
 * simd/simd.h says what each means. */
#ifndef KT_PLUGINS_COMMON_SIMD_FEATURES_H
#define KT_PLUGINS_COMMON_SIMD_FEATURES_H

#ifndef VEC_VNNI
#define VEC_VNNI 0
#endif
#ifndef VEC_VBMI
#define VEC_VBMI 0
#endif
#ifndef VEC_BF16
#define VEC_BF16 0
#endif
#ifndef VEC_GATHERS
#define VEC_GATHERS 0
#endif
#ifndef VEC_DOTPROD
#define VEC_DOTPROD 0
#endif
#ifndef VEC_I8MM
#define VEC_I8MM 0
#endif
#ifndef PREFETCH_FAR
#define PREFETCH_FAR 0
#endif

#endif
