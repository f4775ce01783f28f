/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/levels8.h - the table of levels of a backend whose Makefile fragment defines a LEVEL_ for each that
 * is built. Include the backend's header first. AMX_NEEDS, AMX_INSTRUCTION: of level amx, where it does not
 * multiply int8.
 */
#ifndef KT_PLUGINS_COMMON_PLUGIN_LEVELS8_H
#define KT_PLUGINS_COMMON_PLUGIN_LEVELS8_H

#include "plugins/common/plugin/instance.h"

#define NEEDS_VNNI (NEEDS_AVX512 | KT_CPU_AVX512_VNNI)
#define NEEDS_VBMI (NEEDS_VNNI | KT_CPU_AVX512_VBMI)
#ifndef AMX_NEEDS
#define AMX_NEEDS (NEEDS_VNNI | KT_CPU_AMX_TILE | KT_CPU_AMX_INT8)
#define AMX_INSTRUCTION "tdpbssd"
#endif

#ifdef LEVEL_AMX
DEFINE_LEVEL(amx, AMX_NEEDS, AMX_INSTRUCTION);
#endif
#ifdef LEVEL_AOCL
DEFINE_LEVEL(aocl, NEEDS_VNNI, "vpdpbusd", .check = OWN(check_aocl));
#endif
#ifdef LEVEL_AVX512_VBMI
DEFINE_LEVEL(avx512_vbmi, NEEDS_VBMI, "vpdpbusd");
#endif
#ifdef LEVEL_AVX512_VNNI
DEFINE_LEVEL(avx512_vnni, NEEDS_VNNI, "vpdpbusd");
#endif
#ifdef LEVEL_AVX512
DEFINE_LEVEL(avx512, NEEDS_AVX512, "vpmaddubsw");
#endif
#ifdef LEVEL_AVX_VNNI
DEFINE_LEVEL(avx_vnni, NEEDS_AVX2 | KT_CPU_AVX_VNNI, "vpdpbusd");
#endif
#ifdef LEVEL_AVX2
DEFINE_LEVEL(avx2, NEEDS_AVX2, "vpmaddubsw");
#endif
#ifdef LEVEL_KML
DEFINE_LEVEL(kml, KT_CPU_NEON | KT_CPU_DOTPROD, "sdot", .check = check_kml);
#endif
#ifdef LEVEL_I8MM
DEFINE_LEVEL(i8mm, NEEDS_I8MM, "usmmla");
#endif
#ifdef LEVEL_SVE
DEFINE_LEVEL(sve, KT_CPU_NEON | KT_CPU_SVE, "svdot", .check = check_sve);
#endif
#ifdef LEVEL_DOTPROD
DEFINE_LEVEL(dotprod, KT_CPU_NEON | KT_CPU_DOTPROD, "sdot");
#endif
#ifdef LEVEL_NEON
DEFINE_LEVEL(neon, KT_CPU_NEON, "smull");
#endif
DEFINE_LEVEL(scalar, 0, "scalar");

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    &level_amx,
#endif
#ifdef LEVEL_AOCL
    &level_aocl,
#endif
#ifdef LEVEL_AVX512_VBMI
    &level_avx512_vbmi,
#endif
#ifdef LEVEL_AVX512_VNNI
    &level_avx512_vnni,
#endif
#ifdef LEVEL_AVX512
    &level_avx512,
#endif
#ifdef LEVEL_AVX_VNNI
    &level_avx_vnni,
#endif
#ifdef LEVEL_AVX2
    &level_avx2,
#endif
#ifdef LEVEL_KML
    &level_kml,
#endif
#ifdef LEVEL_I8MM
    &level_i8mm,
#endif
#ifdef LEVEL_SVE
    &level_sve,
#endif
#ifdef LEVEL_DOTPROD
    &level_dotprod,
#endif
#ifdef LEVEL_NEON
    &level_neon,
#endif
    &level_scalar,
};

#endif
