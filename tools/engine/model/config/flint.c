/* SPDX-License-Identifier: Apache-2.0 */
/* flint.c - Flint and Kolibri: layers that see all tokens are not rotated. Flint has sinks and sigmoids that
 * nothing corrects; Kolibri has norms around, and chooses experts by their logits. GGUF files have neither.
 */
#include "tools/engine/model/config/config.h"

/* Where the file does not list them: the first two, the last one and every fourth layer see all tokens. */
static void read_flint_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", c->defaults->window);
    if (kt_engine_config_layer_types(s, c, window))
        return;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = i < 2 || i % 4 == 1 || i == c->n_layers - 1 ? 0 : window;
}

static void read_flint(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    read_flint_windows(s, c);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.has_sinks = true;
    c->router.routing = KT_ROUTING_SIGMOID;
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", true);
    kt_engine_config_sparse_layers(s, c);
    if (!kt_settings_has(s, NULL, "mlp_only_layers"))
        kt_engine_config_dense_first(s, c, c->n_layers < 2 ? c->n_layers : 2);
    c->has_shared = true;
    c->shared_width = kt_settings_uint(s, NULL, "shared_expert_intermediate_size", c->defaults->shared_width);
}

static void read_kolibri(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.biases = KT_BIASES_NONE;
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_norms(c, KT_NORMS_AROUND);
    kt_engine_config_windows(s, c, 5);
    c->router.routing = KT_ROUTING_LOGITS;
    c->router.has_correction = true;
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", false);
    c->has_shared = true;
    c->shared_width = kt_settings_uint(s, NULL, "shared_expert_intermediate_size", c->defaults->shared_width);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_unrotated(c, !kt_settings_is_null(s, "sliding_window"));
}

const struct kt_family kt_family_flint = {.name = "flint",
                                          .classes = " FlintForCausalLM ",
                                          .names = {.json_shared = "mlp.shared_expert"},
                                          .read = read_flint,
                                          .read_layers = read_layers};
const struct kt_family kt_family_kolibri = {.name = "kolibri1",
                                            .classes = " Kolibri1ForCausalLM ",
                                            .names = {.norms = {[KT_NORM_AFTER_MIXER].json =
                                                                    "post_self_attn_layernorm",
                                                                [KT_NORM_AFTER_FFN].json =
                                                                    "post_mlp_layernorm"}},
                                            .read = read_kolibri,
                                            .read_layers = read_layers};
