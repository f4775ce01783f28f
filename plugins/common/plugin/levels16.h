/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/levels16.h - the table of levels of a backend that multiplies bfloat16 and whose Makefile fragment
 * defines a LEVEL_ for each that is built. Include the backend's header first. NEEDS_PAIRS: what level
 * avx512_bf16 needs.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_LEVELS16_H
#define KT_PLUGINS_COMMON_PLUGIN_LEVELS16_H

#include "plugins/common/plugin/instance.h"

#ifndef NEEDS_PAIRS
#define NEEDS_PAIRS (NEEDS_AVX512 | KT_CPU_AVX512_VNNI | KT_CPU_AVX512_BF16)
#endif

#ifdef LEVEL_AMX
DEFINE_LEVEL(amx, NEEDS_PAIRS | KT_CPU_AMX_TILE | KT_CPU_AMX_BF16, "tdpbf16ps");
#endif
#ifdef LEVEL_AVX512_BF16
DEFINE_LEVEL(avx512_bf16, NEEDS_PAIRS, "vdpbf16ps");
#endif
#ifdef LEVEL_AVX512
DEFINE_LEVEL(avx512, NEEDS_AVX512, "vfmadd");
#endif
#ifdef LEVEL_AVX2
DEFINE_LEVEL(avx2, NEEDS_AVX2, "vfmadd");
#endif
#ifdef LEVEL_ARM_BF16
DEFINE_LEVEL(arm_bf16, NEEDS_I8MM | KT_CPU_ARM_BF16, "bfmmla");
#endif
#ifdef LEVEL_NEON
DEFINE_LEVEL(neon, KT_CPU_NEON, "fmla");
#endif
DEFINE_LEVEL(scalar, 0, "scalar");

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    &level_amx,
#endif
#ifdef LEVEL_AVX512_BF16
    &level_avx512_bf16,
#endif
#ifdef LEVEL_AVX512
    &level_avx512,
#endif
#ifdef LEVEL_AVX2
    &level_avx2,
#endif
#ifdef LEVEL_ARM_BF16
    &level_arm_bf16,
#endif
#ifdef LEVEL_NEON
    &level_neon,
#endif
    &level_scalar,
};

#endif
