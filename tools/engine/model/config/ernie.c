/* SPDX-License-Identifier: Apache-2.0 */
/* ernie.c - ERNIE 4.5 with experts and without: neighbors are rotated, and experts chosen by a softmax and a
 * correction. */
#include "tools/engine/model/config/config.h"

static void read_biases(struct kt_settings *s, struct kt_engine_config *c)
{
    bool has_biases = kt_settings_flag(s, NULL, "use_bias", false);
    if (!s->is_gguf)
        c->attention.biases = has_biases ? KT_BIASES_ALL : KT_BIASES_NONE;
    c->has_mlp_biases = has_biases;
}

static void read_ernie(struct kt_settings *s, struct kt_engine_config *c)
{
    read_biases(s, c);
}

/* Those of every `step` layers from the first to the last have experts. */
static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t first =
        kt_settings_uint(s, "leading_dense_block_count", "moe_layer_start_index", c->defaults->n_dense);
    uint64_t step = kt_settings_uint(s, "interleave_moe_layer_step", "moe_layer_interval", 1);
    uint64_t last = c->n_layers - 1;
    const json_t *end = kt_settings_json(s, "moe_layer_end_index");
    if (json_is_integer(end) && json_integer_value(end) >= 0)
        last = kt_settings_uint(s, NULL, "moe_layer_end_index", last);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].dense = i < first || i > last || step == 0 || (i + 1) % step != 0;
}

static void read_ernie_moe(struct kt_settings *s, struct kt_engine_config *c)
{
    double least = kt_settings_real(s, NULL, "moe_norm_min", 1e-12);
    read_biases(s, c);
    c->has_head_bias = c->has_mlp_biases && !s->is_gguf;
    read_layers(s, c);
    c->router.routing = KT_ROUTING_SOFTMAX;
    c->router.has_correction = true;
    kt_engine_config_shared(s, c);
    /* The weights of the best experts sum up to more than that. */
    if (!(least >= 0 && least <= 1e-6))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "a moe_norm_min of %g is not computed, only up to 1e-6", least);
}

/* Blocks that predict tokens after the next. */
static const char *const skipped[] = {"model.mtp_block.", "model.mtp_emb_norm.", "model.mtp_hidden_norm.",
                                      "model.mtp_linear_proj.", NULL};

const struct kt_family kt_family_ernie = {.name = "ernie4_5",
                                          .classes = " Ernie4_5ForCausalLM ",
                                          .gguf_pairing = KT_ROPE_NORM,
                                          .json_pairing = KT_ROPE_NORM,
                                          .names = {.skipped = skipped},
                                          .skips_mtp = true,
                                          .read = read_ernie};
const struct kt_family kt_family_ernie_moe = {.name = "ernie4_5-moe",
                                              .classes = " Ernie4_5_MoeForCausalLM ",
                                              .gguf_pairing = KT_ROPE_NORM,
                                              .json_pairing = KT_ROPE_NORM,
                                              .names = {.json_correction =
                                                            "mlp.moe_statics.e_score_correction_bias",
                                                        .skipped = skipped},
                                              .skips_mtp = true,
                                              .read = read_ernie_moe};
