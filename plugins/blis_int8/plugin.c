/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the plugin blis_int8: weights as int8 with a scale per row, by AMD's AOCL or own kernels. */
#include "plugins/blis_int8/blis_int8.h"

#include "plugins/common/plugin/levels.h"

static const struct kt_level *const levels[] = {
#ifdef LEVEL_AOCL
    LEVEL(aocl, NEEDS_AVX512_VNNI, "vpdpbusd", .check = blis_int8_check_aocl),
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
    LEVEL(scalar, 0, "scalar"),
};

enum { OPTION_LIBRARY, OPTION_Y };
static const struct kt_option options[] = {
    [OPTION_LIBRARY] =
        {
            .key = "library",
            .type = KT_OPTION_STRING,
            .default_text = LIBRARY_AUTO,
            .help =
                "AMD's AOCL for level aocl: auto, none, an absolute path or a name for the dynamic linker",
        },
    [OPTION_Y] = OPTION_ROW_Y,
};

static void read_options(struct blis_instance *self, const struct kt_caps *caps,
                         const struct kt_option_value *values)
{
    (void)caps;
    self->library = values[OPTION_LIBRARY].text;
}

#define INSTANCE struct blis_instance
#include "plugins/common/plugin/options_tmpl.h"

/* Not before level aocl is to be taken: a library that nobody uses is not even opened. */
enum kt_status blis_int8_check_aocl(void *instance, struct kt_error *error)
{
    struct blis_instance *self = instance;
    return aocl_open(self->base.host, self->library, &self->aocl, error);
}

KT_PLUGIN_DEFINE(blis_int8) = {
    KT_PLUGIN_HEADER(blis_int8),
    .description = "int8 weights with a scale per row, quantized from any source, by AMD's AOCL or its own "
                   "kernels; int8 activations",
    .formats = "bf16 f16 f32 f64 f8_e4m3 f8_e5m2 and GGUF's blocks",
    PLUGIN_PARTS,
};
