/* SPDX-License-Identifier: Apache-2.0 */
/* hunyuan.c - Tencent's Hunyuan, with experts and without: heads are normed after they are rotated; and Hy3,
 * with routers of sigmoids. */
#include "tools/engine/model/config/config.h"

#include <stdio.h>

/* A list has one for each layer. */
static void expect_same(struct kt_settings *s, const char *name)
{
    uint64_t n = kt_settings_count(s, NULL, name), first = kt_settings_uint(s, NULL, name, 0);
    for (uint64_t i = 1; i < n && s->status == KT_OK; i++)
        if (kt_settings_uint_at(s, NULL, name, i, first) != first)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s differs from layer to layer, which is not computed",
                             name);
}

static void read_hunyuan(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.norms_rotated = true;
    kt_engine_config_biases(s, c);
    kt_engine_config_stretch_base(c, kt_settings_real(s, NULL, "rope_scaling/alpha", 0));
}

static void read_hunyuan_moe(struct kt_settings *s, struct kt_engine_config *c)
{
    read_hunyuan(s, c);
    expect_same(s, "num_experts");
    expect_same(s, "moe_topk");
    c->has_shared = kt_settings_uint(s, "expert_shared_count", NULL, 1) > 0;
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length", NULL, 0);
    if (c->n_experts == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a model of this family without experts");
}

static void read_hy_v3(struct kt_settings *s, struct kt_engine_config *c)
{
    double scale =
        kt_settings_real(s, "expert_weights_scale", "router_scaling_factor", s->is_gguf ? 1 : 2.826);
    uint64_t index;
    char name[48];
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false);
    kt_engine_config_plain_sigmoids(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", NULL, !s->is_gguf);
    c->router.scale = (float)scale;
    kt_engine_config_shared(s, c);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c,
                                     kt_settings_uint(s, NULL, "first_k_dense_replace",
                                                      c->defaults->n_dense));
    /* GGUF files say by their tensors which layers have experts and a shared one. */
    for (uint32_t i = 0; i < c->n_layers && s->is_gguf; i++) {
        (void)snprintf(name, sizeof(name), "blk.%u.ffn_gate_inp.weight", i);
        c->layers[i].dense = kt_checkpoint_find(s->checkpoint, name, &index, NULL) != KT_OK;
    }
    if (s->is_gguf) {
        c->has_shared = true;
        c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length", NULL, 0);
    }
}

const struct kt_family kt_family_hunyuan_moe = {.name = "hunyuan-moe",
                                                .classes = " HunYuanMoEV1ForCausalLM ",
                                                .names = {.json_router = "mlp.gate.wg",
                                                          .json_shared = "mlp.shared_mlp",
                                                          .json_query_norm = "query_layernorm",
                                                          .json_key_norm = "key_layernorm"},
                                                .read = read_hunyuan_moe};
const struct kt_family kt_family_hunyuan = {.name = "hunyuan-dense",
                                            .classes = " HunYuanDenseV1ForCausalLM ",
                                            .names = {.json_query_norm = "query_layernorm",
                                                      .json_key_norm = "key_layernorm"},
                                            .read = read_hunyuan};
const struct kt_family kt_family_hy_v3 = {.name = "hy_v3",
                                          .classes = " HYV3ForCausalLM ",
                                          .names = {.json_router = "mlp.router.gate",
                                                    .json_correction = "mlp.expert_bias",
                                                    .json_shared = "mlp.shared_mlp"},
                                          .skips_mtp = true,
                                          .read = read_hy_v3};
