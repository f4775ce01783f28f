/* SPDX-License-Identifier: Apache-2.0 */
/* mimo.c - MiMo-V2-Flash: values are shorter than keys, layers that slide have sinks, twice as many heads of
 * keys and another rope. */
#include "tools/engine/model/config/config.h"

/* That of sliding_window_size, which GGUF files have, does not count the token itself. */
static uint64_t read_window(struct kt_settings *s)
{
    uint64_t size = kt_settings_uint(s, "attention.sliding_window", "sliding_window_size", 0);
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", 129);
    return size > 0 ? size + 1 : s->is_gguf ? 0 : window;
}

static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = read_window(s);
    if (s->is_gguf)
        kt_engine_config_turns(s, c, window, 6);
    else if (!kt_engine_config_layer_types(s, c, window))
        for (uint32_t i = 1; i < c->n_layers; i++)
            c->layers[i].window = (i + 1) % 6 != 0 ? window : 0;
}

static void read_mimo(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.value_size = (uint32_t)kt_settings_need(s, "attention.value_length", "v_head_dim");
    bool scales = !s->is_gguf && !kt_settings_is_null(s, "attention_value_scale");
    c->attention.value_scale =
        (float)kt_settings_real(s, "attention.value_scale", "attention_value_scale", scales ? 0.707 : 0);
    kt_engine_config_biases(s, c);
    read_windows(s, c);
    kt_engine_config_sigmoid_router(s, c);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c,
                                     kt_settings_uint(s, "leading_dense_block_count", NULL,
                                                      c->defaults->n_dense));
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_heads(s, c, NULL);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        struct kt_attention_config *a = &c->layers[i].attention;
        a->has_sinks = c->layers[i].window > 0;
        if (a->has_sinks && !s->is_gguf)
            a->n_kv_heads *= 2;
    }
}

static const char *const skipped[] = {"model.mtp.", NULL};

const struct kt_family kt_family_mimo = {.name = "mimo2",
                                         .classes = " MiMoV2FlashForCausalLM ",
                                         .names = {.skipped = skipped, .json_sinks = "attention_sink_bias"},
                                         .read = read_mimo,
                                         .read_layers = read_layers,
                                         .ropes_by_type = true,
                                         .heads_by_layer = true,
                                         .skips_mtp = true};
