/* SPDX-License-Identifier: Apache-2.0 */
/* qwen.c - Qwen 3 with experts and without, and Qwen 2, whose queries, keys and values have biases. */
#include "tools/engine/model/config/config.h"

/* use_sliding_window is false in all of them that were released; true would need layer_types. */
static void read_window(struct kt_settings *s)
{
    bool has_size = kt_settings_has(s, NULL, "sliding_window");
    if (has_size && kt_settings_flag(s, NULL, "use_sliding_window", false))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "use_sliding_window is not computed");
}

static void read_qwen2(struct kt_settings *s, struct kt_engine_config *c)
{
    (void)c;
    read_window(s);
}

static void read_qwen3(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.norm = KT_HEAD_NORM_EACH;
    read_window(s);
}

static void read_qwen3moe(struct kt_settings *s, struct kt_engine_config *c)
{
    read_qwen3(s, c);
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", s->is_gguf);
    kt_engine_config_sparse_layers(s, c);
}

void kt_engine_config_sparse_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t step = kt_settings_uint(s, NULL, "decoder_sparse_step", 1);
    uint64_t n = kt_settings_count(s, NULL, "mlp_only_layers");
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].dense = step == 0 || (i + 1) % step != 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = kt_settings_uint_at(s, NULL, "mlp_only_layers", i, 0);
        if (layer < c->n_layers)
            c->layers[layer].dense = true;
    }
}

const struct kt_family kt_family_qwen3moe = {.name = "qwen3moe",
                                             .classes = " Qwen3MoeForCausalLM ",
                                             .read = read_qwen3moe};
const struct kt_family kt_family_qwen3 = {.name = "qwen3",
                                          .classes = " Qwen3ForCausalLM ",
                                          .read = read_qwen3};
const struct kt_family kt_family_qwen2 = {.name = "qwen2",
                                          .classes = " Qwen2ForCausalLM ",
                                          .read = read_qwen2};
