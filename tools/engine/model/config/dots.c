/* SPDX-License-Identifier: Apache-2.0 */
/* dots.c - dots.llm1: norms of heads, routers of sigmoids, shared experts, dense layers first. */
#include "tools/engine/model/config/config.h"

/* Layers from max_window_layers on slide, unless the window is null. */
static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", fallback);
    uint64_t first = kt_settings_uint(s, NULL, "max_window_layers", 62);
    if (s->is_gguf || kt_engine_config_layer_types(s, c, window))
        return;
    for (uint64_t i = first; i < c->n_layers; i++)
        c->layers[i].window = window;
}

static void read_dots1(struct kt_settings *s, struct kt_engine_config *c)
{
    read_windows(s, c);
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    kt_engine_config_sigmoid_router(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", false);
    kt_engine_config_dense_first(s, c,
                                 kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace",
                                                  c->defaults->n_dense));
    kt_engine_config_shared(s, c);
}

const struct kt_family kt_family_dots1 = {.name = "dots1",
                                          .classes = " Dots1ForCausalLM ",
                                          .read = read_dots1};
