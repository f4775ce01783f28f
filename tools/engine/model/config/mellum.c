/* SPDX-License-Identifier: Apache-2.0 */
/* mellum.c - Mellum: layers that slide have a rope of their own. */
#include "tools/engine/model/config/config.h"

#include <string.h>

/* The block that predicts slides, unless "mtp_layer_types" says otherwise. */
static void read_block(struct kt_settings *s, struct kt_engine_config *c, uint64_t window)
{
    char layer[32], network[16];
    kt_settings_text(s, NULL, "mtp_layer_types", 0, layer, sizeof(layer));
    kt_settings_text(s, NULL, "mtp_mlp_layer_types", 0, network, sizeof(network));
    c->layers[c->n_layers].window = strcmp(layer, "full_attention") == 0 ? 0 : window;
    c->block_is_dense = strcmp(network, "dense") == 0;
}

static void read_mellum(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    if (s->is_gguf && window > 0)
        kt_engine_config_turns(s, c, window, 4);
    else if (!s->is_gguf)
        kt_engine_config_layer_types(s, c, window);
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", true);
    (void)kt_engine_config_mlp_types(s, c);
    read_block(s, c, window);
}

static const char *const skipped[] = {"mtp.", NULL};

const struct kt_family kt_family_mellum = {.name = "mellum",
                                           .classes = " MellumForCausalLM ",
                                           .read = read_mellum,
                                           .names = {.skipped = skipped, .json_mtp = true},
                                           .ropes_by_type = true};
