/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/levels.h - rows for a backend's table of levels, best one first:
 *
 *   static const struct kt_level *const levels[] = {
 *   #ifdef LEVEL_AVX2
 *       LEVEL(avx2, NEEDS_AVX2, "vfmadd"),
 *   #endif
 *       LEVEL(scalar, 0, "scalar"),
 *   };
 *
 * plugins/levels.awk writes the build rules of the rows, which define a LEVEL_ for each level that is built.
 * The backend's header defines OPS_NAME(level), the name of a level's struct kt_ops. A level's instruction is
 * the one that bounds it: kt bench measures its peak.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_LEVELS_H
#define KT_PLUGINS_COMMON_PLUGIN_LEVELS_H

#include <kt/plugin.h>

#define NEEDS_AVX2 (KT_CPU_AVX | KT_CPU_AVX2 | KT_CPU_FMA | KT_CPU_F16C)
#define NEEDS_AVX_VNNI (NEEDS_AVX2 | KT_CPU_AVX_VNNI)
#define NEEDS_AVX512 (NEEDS_AVX2 | KT_CPU_AVX512F | KT_CPU_AVX512BW | KT_CPU_AVX512VL | KT_CPU_AVX512DQ)
#define NEEDS_AVX512_VNNI (NEEDS_AVX512 | KT_CPU_AVX512_VNNI)
#define NEEDS_AVX512_VBMI (NEEDS_AVX512_VNNI | KT_CPU_AVX512_VBMI)
#define NEEDS_AVX512_BF16 (NEEDS_AVX512_VNNI | KT_CPU_AVX512_BF16)
#define NEEDS_AMX_INT8 (NEEDS_AVX512_VNNI | KT_CPU_AMX_TILE | KT_CPU_AMX_INT8)
#define NEEDS_AMX_BF16 (NEEDS_AVX512_BF16 | KT_CPU_AMX_TILE | KT_CPU_AMX_BF16)
#define NEEDS_DOTPROD (KT_CPU_NEON | KT_CPU_DOTPROD)
#define NEEDS_I8MM (NEEDS_DOTPROD | KT_CPU_I8MM)

/* More fields of struct kt_level may follow. */
#define LEVEL(level, needs, bound, ...)                                                                 \
    &(const struct kt_level)                                                                            \
    {                                                                                                   \
        .struct_size = sizeof(struct kt_level), .name = #level, .cpu = (needs), .instruction = (bound), \
        .ops = &OPS_NAME(level), __VA_ARGS__                                                            \
    }

#endif
