/* SPDX-License-Identifier: Apache-2.0 */
/* smollm3.c - SmolLM3: every fourth layer is not rotated. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>

/* Of a list, 1 says that a layer is rotated. */
static bool is_rotated(struct kt_settings *s, uint32_t i, uint64_t step)
{
    return kt_settings_uint_at(s, NULL, "no_rope_layers", i, step == 0 || (i + 1) % step != 0) != 0;
}

static void read_smollm3(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", 0);
    if (!kt_settings_flag(s, NULL, "use_sliding_window", false))
        window = 0;
    if (!s->is_gguf)
        kt_engine_config_layer_types(s, c, window);
    kt_engine_config_biases(s, c);
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t n = kt_settings_count(s, NULL, "no_rope_layers");
    uint64_t step = kt_settings_uint(s, NULL, "no_rope_layer_interval", 4);
    if (n != 0 && n < c->n_layers)
        kt_settings_fail(s, KT_E_FORMAT, "no_rope_layers names %" PRIu64 " layers of %u", n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (!is_rotated(s, i, step))
            c->layers[i].rope = KT_LAYER_ROPE_NONE;
    /* What is not rotated slides, if anything does, unless layer_types says so. */
    if (kt_settings_count(s, NULL, "layer_types") > 0 ||
        !kt_settings_flag(s, NULL, "use_sliding_window", false))
        return;
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->layers[i].rope == KT_LAYER_ROPE_NONE)
            c->layers[i].window = kt_settings_uint(s, NULL, "sliding_window", 0);
}

const struct kt_family kt_family_smollm3 = {.name = "smollm3",
                                            .classes = " SmolLM3ForCausalLM ",
                                            .gguf_pairing =
                                                KT_ROPE_NORM, /* converters permute as for llama */
                                            .json_pairing = KT_ROPE_NEOX,
                                            .read = read_smollm3,
                                            .read_layers = read_layers};
