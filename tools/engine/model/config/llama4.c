/* SPDX-License-Identifier: Apache-2.0 */
/* llama4.c - the text of Llama 4: every fourth layer is not rotated and has queries that grow, the others
 * norm queries and keys after they are rotated; the weight of a token's expert is in what the expert reads.
 */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <string.h>

/* Whether a layer sees chunks: rotated ones, unless layer_types says it. */
static bool is_chunked(struct kt_settings *s, const struct kt_engine_config *c, uint32_t layer)
{
    char type[32];
    uint64_t n = kt_settings_count(s, NULL, "layer_types");
    if (n == 0)
        return c->layers[layer].rope != KT_LAYER_ROPE_NONE;
    if (n != c->n_layers)
        kt_settings_fail(s, KT_E_FORMAT, "layer_types names %" PRIu64 " layers of %u", n, c->n_layers);
    kt_settings_text(s, NULL, "layer_types", layer, type, sizeof(type));
    bool chunked = strcmp(type, "chunked_attention") == 0;
    if (s->status == KT_OK && !chunked && strcmp(type, "full_attention") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "layer %u is of the type '%s', which is not computed", layer,
                         type);
    return chunked;
}

static void read_chunks(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t chunk = 0;
    if (!kt_settings_is_null(s, "attention_chunk_size"))
        chunk = kt_settings_uint(s, NULL, "attention_chunk_size", 8192);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].chunk = is_chunked(s, c, i) && chunk < c->context_length ? chunk : 0;
    if (chunk < c->context_length && chunk % KT_KV_PAGE != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "an attention_chunk_size of %" PRIu64 "; multiples of %d are computed", chunk,
                         KT_KV_PAGE);
}

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t step = kt_settings_uint(s, "interleave_moe_layer_step", "interleave_moe_layer_step", 1);
    uint64_t n = kt_settings_count(s, NULL, "moe_layers");
    bool lists = kt_settings_json(s, "moe_layers") != NULL;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].dense = lists || step == 0 || (i + 1) % step != 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = kt_settings_uint_at(s, NULL, "moe_layers", i, 0);
        if (layer < c->n_layers)
            c->layers[layer].dense = false;
    }
    if (!s->is_gguf)
        c->dense_width = kt_settings_uint(s, NULL, "intermediate_size_mlp", 16384);
    c->has_shared = true;
    c->shared_width = kt_settings_uint(s, "expert_feed_forward_length", "intermediate_size", 8192);
    c->router.routing = KT_ROUTING_LOGITS;
    c->router.normalizes = false;
    c->router.weighs_input = true;
    if (c->top_k > 1)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "%u experts of a token; models of this family have 1",
                         c->top_k);
}

static void read_llama4(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", NULL, 1);
    if (window == 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "attention.sliding_window is 0, which is not computed");
    kt_engine_config_biases(s, c);
    read_experts(s, c);
}

static bool is_rotated(struct kt_settings *s, uint32_t layer, uint32_t n_layers)
{
    uint64_t interval = kt_settings_uint(s, NULL, "no_rope_layer_interval", 4);
    bool by_interval = interval == 0 || (layer + 1) % interval != 0;
    uint64_t n = kt_settings_count(s, NULL, "no_rope_layers");
    if (n > 0 && n != n_layers)
        kt_settings_fail(s, KT_E_FORMAT, "no_rope_layers names %u layers of %u", (unsigned)n, n_layers);
    if (n > 0)
        return kt_settings_uint_at(s, NULL, "no_rope_layers", layer, 1) != 0;
    return by_interval;
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    /* llama.cpp has no key for it, and knows the larger model by its experts. */
    bool norms = kt_settings_flag(s, NULL, "use_qk_norm", !s->is_gguf || c->n_experts != 128);
    struct kt_growth_config growth = {.growth = KT_GROWTH_LOG, .first = 1};
    growth.rate = kt_settings_real(s, NULL, "attn_scale", 0.1);
    growth.length = kt_settings_real(s, NULL, "floor_scale", 8192);
    if (!kt_settings_flag(s, NULL, "attn_temperature_tuning", true))
        growth.growth = KT_GROWTH_NONE;
    if (!(growth.length > 0))
        kt_settings_fail(s, KT_E_FORMAT, "floor_scale is %g, which must be above 0", growth.length);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        struct kt_layer_config *layer = &c->layers[i];
        if (is_rotated(s, i, c->n_layers)) {
            layer->attention.norm = norms ? KT_HEAD_NORM_EACH : KT_HEAD_NORM_NONE;
            layer->attention.norms_plainly = layer->attention.norms_rotated = true;
        } else {
            layer->rope = KT_LAYER_ROPE_NONE;
            layer->attention.growth = growth;
        }
    }
    read_chunks(s, c);
}

const struct kt_family kt_family_llama4 = {.name = "llama4",
                                           .classes = " Llama4ForCausalLM ",
                                           .gguf_pairing = KT_ROPE_NORM,
                                           .json_pairing = KT_ROPE_NORM,
                                           .names = {.json_network = "feed_forward",
                                                     .json_router = "feed_forward.router",
                                                     .json_shared = "feed_forward.shared_expert"},
                                           .read = read_llama4,
                                           .read_layers = read_layers};
