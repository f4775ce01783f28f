/* SPDX-License-Identifier: Apache-2.0 */
/* qwen_next.c - Qwen 3 Next and Qwen 3.5: most layers are Gated DeltaNet, the others attention with a gate.
 */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <string.h>

/* What predicts further tokens, and what images go through. */
static const char *const skipped[] = {"mtp.", "model.visual.", "visual.", NULL};

/* Whether layer i attends, by the list of the file. A list of GGUF has the blocks that predict, too. */
static bool attends_by_list(struct kt_settings *s, uint32_t i)
{
    char type[32];
    if (s->is_gguf)
        return !kt_settings_flag_at(s, "attention.recurrent_layers", i);
    kt_settings_text(s, NULL, "layer_types", i, type, sizeof(type));
    bool attends = strcmp(type, "full_attention") == 0;
    if (!attends && strcmp(type, "linear_attention") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "layer %u is of the type '%s', which is not computed", i, type);
    return attends;
}

static void read_types(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const names[] = {"layer_types", "attention.recurrent_layers"};
    uint64_t interval = kt_settings_uint(s, "full_attention_interval", "full_attention_interval", 4);
    uint64_t n = kt_settings_count(s, names[1], names[0]);
    bool is_right = n == 0 || n == c->n_layers || (s->is_gguf && (n == 1 || n == c->n_layers + c->n_skipped));
    if (interval == 0 || !is_right)
        kt_settings_fail(s, KT_E_FORMAT,
                         "%" PRIu64 " %s of %u layers, and a full_attention_interval of %" PRIu64, n,
                         names[s->is_gguf], c->n_layers, interval);
    for (uint32_t i = 0; i < c->n_layers && s->status == KT_OK; i++) {
        bool attends = n > 0 ? attends_by_list(s, i) : (i + 1) % interval == 0;
        c->layers[i].mixer = attends ? KT_MIXER_ATTENTION : KT_MIXER_DELTA;
    }
}

static void check_delta(struct kt_settings *s, const struct kt_delta_config *d)
{
    const struct {
        const char *what;
        uint32_t value, least, most;
    } bounds[] = {{"value heads of DeltaNet", d->n_heads, 1, 4096},
                  {"key heads of DeltaNet", d->n_key_heads, 1, 4096},
                  {"numbers of a key head of DeltaNet", d->key_size, 16, 512},
                  {"numbers of a value head of DeltaNet", d->value_size, 16, 512},
                  {"inputs of DeltaNet's convolution", d->width, 2, 8}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            kt_settings_fail(s, KT_E_FORMAT, "%s: %u, which must be %u to %u", bounds[i].what,
                             bounds[i].value, bounds[i].least, bounds[i].most);
    if (s->status == KT_OK && d->n_heads % d->n_key_heads != 0)
        kt_settings_fail(s, KT_E_FORMAT, "%u value heads of DeltaNet over %u key heads", d->n_heads,
                         d->n_key_heads);
    if (s->status == KT_OK && (d->key_size % 16 != 0 || d->value_size % 16 != 0))
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "heads of DeltaNet have %u and %u numbers, which must be multiples of 16",
                         d->key_size, d->value_size);
}

/* No size of a model; it is larger than any that is right. */
static uint32_t need_size(struct kt_settings *s, const char *gguf, const char *json)
{
    uint64_t size = kt_settings_need(s, gguf, json);
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static void read_delta(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_delta_config *d = &c->delta;
    d->n_heads = need_size(s, "ssm.time_step_rank", "linear_num_value_heads");
    d->n_key_heads = need_size(s, "ssm.group_count", "linear_num_key_heads");
    d->key_size = need_size(s, "ssm.state_size", "linear_key_head_dim");
    d->width = need_size(s, "ssm.conv_kernel", "linear_conv_kernel_dim");
    if (!s->is_gguf) {
        d->value_size = need_size(s, NULL, "linear_value_head_dim");
    } else {
        uint32_t all = need_size(s, "ssm.inner_size", NULL);
        d->value_size = d->n_heads ? all / d->n_heads : 0;
        if (s->status == KT_OK && (d->n_heads == 0 || all % d->n_heads != 0))
            kt_settings_fail(s, KT_E_FORMAT, "an ssm.inner_size of %u over %u heads", all, d->n_heads);
    }
    check_delta(s, d);
}

static void read_both(struct kt_settings *s, struct kt_engine_config *c)
{
    read_types(s, c);
    read_delta(s, c);
    kt_engine_config_biases(s, c);
    c->norm_offset = s->is_gguf ? 0 : 1;
    c->attention.norm = KT_HEAD_NORM_EACH;
    if (kt_settings_flag(s, NULL, "attn_output_gate", true))
        c->attention.gate = KT_OUTPUT_GATE_JOINED;
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length",
                                       "shared_expert_intermediate_size", c->defaults->shared_width);
    c->has_shared = c->gates_shared = c->shared_width > 0;
}

static void read_qwen3next(struct kt_settings *s, struct kt_engine_config *c)
{
    read_both(s, c);
    c->delta.order = KT_DELTA_GROUPED;
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", true);
    kt_engine_config_sparse_layers(s, c);
}

/* Its converter reorders the value heads, so that those of all key heads come in turn. */
static void read_qwen35(struct kt_settings *s, struct kt_engine_config *c)
{
    read_both(s, c);
    c->delta.order = s->is_gguf ? KT_DELTA_INTERLEAVED : KT_DELTA_GROUPED;
    if (kt_settings_count(s, NULL, "mlp_only_layers") > 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "mlp_only_layers is not computed for Qwen 3.5");
}

#define NAMES                                                                                        \
    {                                                                                                \
        .norms[KT_NORM_BEFORE_FFN].gguf = "post_attention_norm", .json_shared = "mlp.shared_expert", \
        .skipped = skipped, .json_mtp = true                                                         \
    }

const struct kt_family kt_family_qwen3next = {.name = "qwen3next",
                                              .classes = " Qwen3NextForCausalLM ",
                                              .names = NAMES,
                                              .read = read_qwen3next};
const struct kt_family kt_family_qwen35moe =
    {.name = "qwen35moe",
     .classes = " Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM ",
     .names = NAMES,
     .read = read_qwen35};
const struct kt_family kt_family_qwen35 = {.name = "qwen35",
                                           .classes = " Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM ",
                                           .names = NAMES,
                                           .read = read_qwen35};
