/* SPDX-License-Identifier: Apache-2.0 */
/* gemma.c - Gemma 3: norms around mixers and networks, whose weights are stored less 1, GELU, embeddings by
 * the root of their size, windows with a rope of their own. */
#include "tools/engine/model/config/config.h"

/* Windows have a rope of their own, which is never scaled, by an object or, in older files, by its base. */
static void read_window_rope(struct kt_settings *s, struct kt_engine_config *c)
{
    const json_t *ropes = kt_settings_json(s, "rope_parameters");
    const json_t *own = json_object_get(ropes, "sliding_attention");
    double base = kt_settings_real(s, "rope.freq_base_swa", "rope_local_base_freq", 1e4);
    if (own && json_object_get(own, "rope_theta"))
        return;
    c->window_rope.base = base;
    if (!own)
        c->window_rope.scaling = KT_ROPE_PLAIN;
}

static void read_gemma3(struct kt_settings *s, struct kt_engine_config *c)
{
    const uint32_t of_27b = 62; /* layers, whose scores have another scale, for which GGUF has no key */
    kt_engine_config_biases(s, c);
    kt_engine_config_norms(c, KT_NORMS_AROUND);
    kt_engine_config_scale_embedding(c);
    kt_engine_config_windows(s, c, 6);
    kt_engine_config_cap_logits(s, c, 0);
    read_window_rope(s, c);
    if (!s->is_gguf)
        kt_engine_config_scale_queries(s, c, "query_pre_attn_scalar", 256);
    else if (c->n_layers == of_27b)
        kt_engine_config_scale_queries(s, c, "", (double)(c->hidden_size / c->attention.n_heads));
    c->norm_offset = !s->is_gguf;
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->gating = KT_GATING_GELU;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].rope = c->layers[i].window > 0 ? KT_LAYER_ROPE_WINDOW : KT_LAYER_ROPE;
}

/* Of models that see images. */
static const char *const skipped[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                      "model.multi_modal_projector.", NULL};

const struct kt_family kt_family_gemma3 = {.name = "gemma3",
                                           .classes = " Gemma3ForCausalLM Gemma3ForConditionalGeneration ",
                                           .ropes_by_type = true,
                                           .names = {.norms[KT_NORM_BEFORE_FFN].json =
                                                         "pre_feedforward_layernorm",
                                                     .skipped = skipped},
                                           .read = read_gemma3};
