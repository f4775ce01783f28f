/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin llamafile: GGUF's weight formats as they are, on any CPU. */
#include "plugins/llamafile/llamafile.h"

#include "plugins/common/plugin/levels.h"

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AMX
    LEVEL(amx, NEEDS_AMX_BF16 | KT_CPU_AVX512_VBMI, "tdpbf16ps"),
#endif
#ifdef LEVEL_AVX512_VBMI
    LEVEL(avx512_vbmi, NEEDS_AVX512_VBMI, "vpdpbusd"),
#endif
#ifdef LEVEL_AVX512_VNNI
    LEVEL(avx512_vnni, NEEDS_AVX512_VNNI, "vpdpbusd"),
#endif
#ifdef LEVEL_AVX512
    LEVEL(avx512, NEEDS_AVX512, "vpmaddubsw"),
#endif
#ifdef LEVEL_AVX_VNNI
    LEVEL(avx_vnni, NEEDS_AVX_VNNI, "vpdpbusd"),
#endif
#ifdef LEVEL_AVX2
    LEVEL(avx2, NEEDS_AVX2, "vpmaddubsw"),
#endif
#ifdef LEVEL_I8MM
    LEVEL(i8mm, NEEDS_I8MM, "usmmla"),
#endif
#ifdef LEVEL_DOTPROD
    LEVEL(dotprod, NEEDS_DOTPROD, "sdot"),
#endif
#ifdef LEVEL_NEON
    LEVEL(neon, KT_CPU_NEON, "smull"),
#endif
    LEVEL(scalar, 0, "scalar"),
};

enum { OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_Y] = OPTION_ROW_Y,
    {.key = "repack",
     .type = KT_OPTION_ENUM,
     .default_text = "auto",
     .choices = "auto|roomy|compact|no|yes|true|on|1|false|off|0",
     .help = "roomy: i-quants in a form made for speed; compact: as small as the file; auto: compact where "
             "roomy would not fit into memory; no: weights stay in the mapped file, many times slower"},
};

static void read_options(struct llamafile_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)caps;
    /* yes and no are what it was before there were two forms. */
    static const enum repack choices[] = {REPACK_AUTO,  REPACK_ROOMY, REPACK_COMPACT, REPACK_NO,
                                          REPACK_ROOMY, REPACK_ROOMY, REPACK_ROOMY,   REPACK_ROOMY,
                                          REPACK_NO,    REPACK_NO,    REPACK_NO};
    self->repack = choices[values[1].number];
}

#define INSTANCE struct llamafile_instance
#include "plugins/common/plugin/options_tmpl.h"

KT_PLUGIN_DEFINE(llamafile) = {
    KT_PLUGIN_HEADER(llamafile),
    .description = "GGUF block formats, kept bit for bit; activations as int8 in groups of 32, on amx many "
                   "rows as bfloat16",
    .formats = "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 "
               "iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s tq1_0 tq2_0 nvfp4 "
               "q1_0 q2_0",
    PLUGIN_PARTS,
};
