/* SPDX-License-Identifier: Apache-2.0 */
/* beam.c - Reflection's Beam: norms around attention and networks, gates with a bias for each head, residuals
 * that keep their variance, and layers without a rope, whose queries grow with the position. */
#include "tools/engine/model/config/config.h"

#include <math.h>

/* Every sixth layer sees all tokens, and so does the last one, where the file does not list them. */
static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", fallback);
    if (kt_engine_config_layer_types(s, c, window))
        return;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = (i + 1) % 6 == 0 || i + 1 == c->n_layers ? 0 : window;
}

/* What the n-th sum has been added to is n - 1 parts of it, so that its variance stays. Norms before all that
 * reads it make that the same as plain sums, but for their epsilon and for who is given hidden states. */
static void read_residuals(struct kt_engine_config *c)
{
    for (uint32_t i = 0; i < c->n_layers; i++)
        for (uint32_t half = 0; half < KT_HALVES; half++) {
            double n = 2 * ((double)i + 1) + half;
            c->layers[i].residual[half].keep = (float)sqrt((n - 1) / n);
            c->layers[i].residual[half].add = (float)(1 / sqrt(n));
        }
}

static void read_router(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_sigmoid_router(s, c);
    c->router.n_groups = (uint32_t)kt_settings_uint(s, NULL, "n_group", 8);
    c->router.top_groups = (uint32_t)kt_settings_uint(s, NULL, "topk_group", 4);
    c->router.scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 2.5);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c, c->n_layers < 3 ? c->n_layers : 3);
}

static void read_beam(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    kt_engine_config_norms(c, KT_NORMS_AROUND);
    read_windows(s, c);
    read_residuals(c);
    read_router(s, c);
    kt_engine_config_cap_logits(s, c, 30);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.gate = KT_OUTPUT_GATE_ELEMENTS;
    c->attention.gate_biases = true;
    /* transformers takes it from rope_parameters alone. */
    if (kt_settings_real(s, NULL, "rope_theta", c->window_rope.base) != c->window_rope.base)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "a rope_theta outside rope_parameters is not computed");
}

/* A kind of layers whose rope is null has none. */
static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    static const struct kt_growth_config growth = {.growth = KT_GROWTH_POWER,
                                                   .first = 1,
                                                   .rate = 0.1,
                                                   .length = 2048};
    const json_t *ropes = kt_settings_json(s, "rope_parameters");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool slides = c->layers[i].window > 0;
        const char *type = slides ? "sliding_attention" : "full_attention";
        const json_t *rope = json_object_get(ropes, type);
        if (ropes && !rope)
            kt_settings_fail(s, KT_E_FORMAT, "rope_parameters has no '%s'", type);
        if (ropes ? json_is_object(rope) : slides)
            continue;
        c->layers[i].rope = KT_LAYER_ROPE_NONE;
        c->layers[i].attention.growth = growth;
    }
}

/* llama.cpp has no such files. */
const struct kt_family kt_family_beam = {.name = "beam",
                                         .classes = " BeamForCausalLM ",
                                         .names = {.norms = {[KT_NORM_BEFORE_FFN].json =
                                                                 "pre_feedforward_layernorm"},
                                                   .json_gate = "gate_proj",
                                                   .json_gate_bias = "gate_bias"},
                                         .read = read_beam,
                                         .read_layers = read_layers,
                                         .ropes_by_type = true,
                                         .has_null_ropes = true};
