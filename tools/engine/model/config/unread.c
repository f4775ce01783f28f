/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unread.c - settings that no function asked for. GGUF's keys are a closed list, so one that nobody knows
 * refuses the file: it may be what a newer converter writes for a sum that is not computed. config.json has
 * keys of training, of programs and of those who made it, which transformers ignores; there only settings of
 * other models that change sums do.
 */
#include "tools/engine/model/config/settings.h"

#include <string.h>

/* What an unread setting may be. */
enum harmless {
    ANY,  /* it changes nothing here */
    ZERO, /* 0, false, nothing: what it turns on is not computed */
    ONE,  /* the same, or 1: one group, a factor, each layer */
    TRUE  /* true, as where it is missing */
};

struct known {
    const char *name;
    enum harmless harmless;
};

static const struct known gguf[] = {
    {"activation_sparsity_scale", ZERO},
    {"attention.causal", TRUE},
    {"attention.clamp_kqv", ZERO},
    {"attention.indexer.head_count", ZERO},
    {"attention.indexer.key_length", ZERO},
    {"attention.indexer.top_k", ZERO},
    {"attention.key_length_mla", ZERO},
    {"attention.key_length_swa", ZERO},
    {"attention.kv_lora_rank", ZERO},
    {"attention.layer_norm_epsilon", ANY}, /* all norms are of the root of the mean square */
    {"attention.max_alibi_bias", ZERO},
    {"attention.output_scale", ONE},
    {"attention.q_lora_rank", ZERO},
    {"attention.recurrent_layers", ZERO},
    {"attention.rope_pattern", TRUE},
    {"attention.scale", ZERO},
    {"attention.shared_kv_layers", ZERO},
    {"attention.sliding_window", ZERO},
    {"attention.sliding_window_pattern", ZERO},
    {"attention.temperature_length", ANY}, /* read with the scale */
    {"attention.temperature_scale", ZERO},
    {"attention.value_length", ANY}, /* of latents: the cache's */
    {"attention.value_length_mla", ZERO},
    {"attention.value_length_swa", ZERO},
    {"attention.value_scale", ONE},
    {"attn_logit_softcapping", ZERO},
    {"embedding_length_per_layer_input", ZERO},
    {"embedding_scale", ONE},
    {"expert_chunk_feed_forward_length", ZERO},
    {"expert_feed_forward_length", ANY}, /* tensors say it */
    {"expert_gating_func", ONE},         /* 1: softmax */
    {"expert_group_count", ONE},
    {"expert_group_scale", ONE},
    {"expert_group_used_count", ANY}, /* read with the count */
    {"expert_shared_count", ZERO},
    {"expert_shared_feed_forward_length", ZERO},
    {"expert_weights_norm", TRUE},
    {"expert_weights_scale", ONE},
    {"experts_per_group", ZERO},
    {"feed_forward_length", ANY}, /* tensors say it */
    {"final_logit_softcapping", ZERO},
    {"full_attention_interval", ONE},
    {"interleave_moe_layer_step", ONE},
    {"leading_dense_block_count", ZERO},
    {"logit_scale", ONE},
    {"moe_every_n_layers", ONE},
    {"moe_latent_size", ZERO},
    {"mrope_sections", ANY}, /* Ollama's name, and two more below, for rope.dimension_sections */
    {"n_deepstack_layers", ZERO},
    {"norm_top_k_prob", TRUE}, /* Ollama's name for expert_weights_norm */
    {"pooling_type", ANY},     /* of embeddings of texts, not of logits */
    {"residual_scale", ONE},
    {"rope.dimension_count_swa", ZERO},
    {"rope.dimension_sections", ANY}, /* of positions in images; all are one in text */
    {"rope.freq_base_swa", ZERO},
    {"rope.mrope_interleaved", ANY},
    {"rope.mrope_section", ANY},
    {"rope.scale_linear", ONE},
    {"rope.scaling.alpha", ONE},
    {"rope.scaling.attn_factor", ONE},
    {"rope.scaling.factor", ANY}, /* unread where nothing is scaled, and so are the next ones */
    {"rope.scaling.finetuned", ANY},
    {"rope.scaling.original_context_length", ANY},
    {"rope.scaling.yarn_attn_factor", ANY},
    {"rope.scaling.yarn_beta_fast", ANY},
    {"rope.scaling.yarn_beta_slow", ANY},
    {"rope.scaling.yarn_ext_factor", ANY},
    {"router_logit_softcapping", ZERO},
    {"ssm.conv_kernel", ZERO},
    {"ssm.dt_b_c_rms", ZERO},
    {"ssm.group_count", ZERO},
    {"ssm.inner_size", ZERO},
    {"ssm.state_size", ZERO},
    {"ssm.time_step_rank", ZERO},
    {"swiglu_clamp_exp", ZERO},
    {"swiglu_clamp_shexp", ZERO},
    {"tensor_data_layout", ANY},
    {"use_parallel_residual", ANY}, /* converters of 2024 wrote true for all; no family here has one */
    {"vocab_size", ANY},            /* files made from others may keep theirs; the embedding says it */
};

static const struct known json[] = {
    {"attention_chunk_size", ZERO},
    {"attention_k_eq_v", ZERO},
    {"attention_multiplier", ZERO},
    {"attn_logit_softcapping", ZERO},
    {"attn_output_gate", ZERO},
    {"clip_qkv", ZERO},
    {"embedding_multiplier", ONE},
    {"enable_moe_block", ZERO},
    {"final_logit_softcapping", ZERO},
    {"first_k_dense_replace", ZERO},
    {"hidden_size_per_layer_input", ZERO},
    {"index_topk", ZERO},
    {"kv_lora_rank", ZERO},
    {"linear_num_value_heads", ZERO},
    {"llama_4_scaling", ZERO},
    {"logit_scale", ONE},
    {"logits_scaling", ONE},
    {"mlp_only_layers", ZERO},
    {"moe_layer_freq", ONE},
    {"moe_router_logit_softcapping", ZERO},
    {"n_group", ONE},
    {"n_shared_experts", ZERO},
    {"no_rope_layers", ZERO},
    {"norm_topk_prob", TRUE},
    {"num_kv_shared_layers", ZERO},
    {"q_lora_rank", ZERO},
    {"query_pre_attn_scalar", ZERO},
    {"residual_multiplier", ONE},
    {"rope_interleave", TRUE},
    {"rope_scaling/llama_4_scaling_beta", ZERO},
    {"routed_scaling_factor", ONE},
    {"shared_expert_intermediate_size", ZERO},
    {"shared_intermediate_size", ZERO},
    {"sliding_window", ZERO},
    {"swiglu_limit", ZERO},
    {"use_bidirectional_attention", ZERO},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct known *find(const struct known *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static bool is_harmless(double number, enum harmless harmless)
{
    return harmless == ANY || number == (harmless == TRUE) || (number == 1 && harmless == ONE);
}

/* ---- GGUF ---- */

/* All elements of a list must be. Texts and what is not a number are not. */
static bool is_harmless_value(const struct kt_value *value, enum harmless harmless)
{
    for (uint64_t i = 0; i < value->count && harmless != ANY; i++) {
        double number;
        int truth;
        if (value->type == KT_VALUE_BOOL) {
            if (kt_value_bool(value, i, &truth, NULL) != KT_OK || !is_harmless(truth, harmless))
                return false;
        } else if (kt_value_real(value, i, &number, NULL) != KT_OK || !is_harmless(number, harmless)) {
            return false;
        }
    }
    return true;
}

static void refuse_gguf(struct kt_settings *s)
{
    uint64_t n = kt_checkpoint_value_count(s->checkpoint);
    size_t length = strlen(s->architecture);
    struct kt_value value;
    for (uint64_t i = 0; i < n && s->status == KT_OK; i++) {
        s->status = kt_checkpoint_value(s->checkpoint, i, &value, s->error);
        if (s->status != KT_OK || strncmp(value.key, s->architecture, length) != 0 ||
            value.key[length] != '.')
            continue;
        const char *name = value.key + length + 1;
        const struct known *known = find(gguf, COUNT(gguf), name);
        if (kt_settings_was_read(s, name) || (known && is_harmless_value(&value, known->harmless)))
            continue;
        if (known)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is not computed for models of the family %s", name,
                             s->architecture);
        else
            kt_settings_fail(s, KT_E_UNSUPPORTED,
                             "unknown key %s.%s: it may change results, so the model is not run",
                             s->architecture, name);
    }
}

/* ---- config.json ---- */

static bool is_harmless_json(const json_t *value, enum harmless harmless)
{
    if (json_is_boolean(value))
        return is_harmless(json_is_true(value), harmless);
    if (json_is_number(value))
        return is_harmless(json_number_value(value), harmless);
    return json_is_array(value) && json_array_size(value) == 0;
}

void kt_settings_refuse_unread(struct kt_settings *s)
{
    if (s->is_gguf)
        refuse_gguf(s);
    for (size_t i = 0; i < COUNT(json) && !s->is_gguf && s->status == KT_OK; i++) {
        const json_t *value = kt_settings_json(s, json[i].name);
        if (value && !kt_settings_was_read(s, json[i].name) && !is_harmless_json(value, json[i].harmless))
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is not computed for models of the family %s",
                             json[i].name, s->architecture);
    }
}
