/* SPDX-License-Identifier: Apache-2.0 */
/* longcat.c - LongCat-Flash: a layer of its files is two here, each latent attention and a dense network. The
 * first one has experts, too, which read what its network reads and are added behind the second one; some of
 * them give what they read. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void read_attention(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_latent(s, c);
    const struct kt_latent_config *l = &c->latent;
    const uint64_t head = l->nope_size + l->rope_size;
    if (kt_settings_uint(s, NULL, "qk_head_dim", head) != head ||
        kt_settings_uint(s, NULL, "head_dim", l->rope_size) != l->rope_size)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "qk_head_dim and head_dim are not those of qk_nope_head_dim and qk_rope_head_dim");
    if (l->q_rank == 0)
        kt_settings_fail(s, KT_E_FORMAT, "q_lora_rank is missing");
    c->latent.q_scale = (float)sqrt((double)c->hidden_size / c->latent.q_rank);
    c->latent.kv_scale = (float)sqrt((double)c->hidden_size / c->latent.kv_rank);
    kt_engine_config_biases(s, c);
    /* transformers ignores them. */
    if (!kt_settings_flag(s, NULL, "mla_scale_q_lora", true) ||
        !kt_settings_flag(s, NULL, "mla_scale_kv_lora", true))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "latents that are not scaled are not computed");
}

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    char type[16];
    uint64_t n = kt_settings_is_null(s, "zero_expert_num") ? 0 : 256;
    n = kt_settings_uint(s, NULL, "zero_expert_num", n);
    kt_settings_text(s, NULL, "zero_expert_type", 0, type, sizeof(type));
    if (type[0] && strcmp(type, "identity") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the zero_expert_type '%s' is not computed", type);
    if (kt_settings_flag(s, NULL, "router_bias", false)) /* which transformers reads and does not add */
        kt_settings_fail(s, KT_E_UNSUPPORTED, "router_bias is not computed");
    if (n > 4096)
        kt_settings_fail(s, KT_E_FORMAT, "zero_expert_num is %" PRIu64 ", 4096 at most are computed", n);
    c->n_identities = s->status == KT_OK ? (uint32_t)n : 0;
    c->router.routing = KT_ROUTING_SOFTMAX;
    c->router.normalizes = false;
    c->router.has_correction = true;
    c->router.scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 6);
    c->has_dense_beside = true;
}

static void read_longcat(struct kt_settings *s, struct kt_engine_config *c)
{
    read_attention(s, c);
    read_experts(s, c);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->layers[i].dense = i % 2 != 0;
        c->layers[i].postpones = i % 2 == 0;
        c->layers[i].adds_kept = i % 2 != 0;
    }
}

static const struct kt_own_name own_names[] = {{"num_hidden_layers", "num_layers"},
                                               {"intermediate_size", "ffn_hidden_size"},
                                               {"moe_intermediate_size", "expert_ffn_hidden_size"},
                                               {NULL, NULL}};

static const char *const parted[] = {"self_attn", "mlps", "input_layernorm", "post_attention_layernorm",
                                     NULL};
/* Of blocks that predict. */
static const char *const skipped[] = {"model.mtp.", NULL};

/* llama.cpp has no such files. */
const struct kt_family kt_family_longcat = {.name = "longcat-flash",
                                            .classes = " LongcatFlashForCausalLM ",
                                            .json_pairing = KT_ROPE_NORM,
                                            .own_names = own_names,
                                            .names = {.json_router = "mlp.router.classifier",
                                                      .json_correction = "mlp.router.e_score_correction_bias",
                                                      .json_network = "mlps",
                                                      .json_parted = parted,
                                                      .skipped = skipped},
                                            .read = read_longcat,
                                            .parts = 2};
