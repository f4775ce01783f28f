/* SPDX-License-Identifier: Apache-2.0 */
/* glm.c - GLM-4.5 to 4.7, and Solar Open, which GGUF files call the same: biases of queries, keys and values,
 * half of a head rotated, routers of sigmoids, a shared expert, dense layers first, and a layer at the end
 * that predicts further tokens. */
#include "tools/engine/model/config/config.h"

#include <string.h>

/* GGUF files say by their tensors what is normed, and what has biases. */
static void read_attention(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t index;
    bool has_norm = s->is_gguf
                        ? kt_checkpoint_find(s->checkpoint, "blk.0.attn_q_norm.weight", &index, NULL) == KT_OK
                        : kt_settings_flag(s, NULL, "use_qk_norm", false);
    bool sees = strcmp(s->architecture, "Glm4vMoeForConditionalGeneration") == 0;
    bool has_bias = kt_settings_flag(s, NULL, "attention_bias", sees);
    c->attention.norm = has_norm ? KT_HEAD_NORM_EACH : KT_HEAD_NORM_NONE;
    c->attention.biases = s->is_gguf ? KT_BIASES_ANY : has_bias ? KT_BIASES_QKV : KT_BIASES_NONE;
}

static void read_glm4moe(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t n_dense =
        kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace", c->defaults->n_dense);
    read_attention(s, c);
    kt_engine_config_sigmoid_router(s, c);
    kt_engine_config_dense_first(s, c, n_dense);
    kt_engine_config_shared(s, c);
}

/* Of models that see images. */
static const char *const skipped[] = {"model.visual.", NULL};

const struct kt_family kt_family_glm4moe = {.name = "glm4moe",
                                            .classes = " Glm4MoeForCausalLM SolarOpenForCausalLM "
                                                       "Glm4vMoeForConditionalGeneration ",
                                            .names = {.norms[KT_NORM_BEFORE_FFN].gguf = "post_attention_norm",
                                                      .skipped = skipped},
                                            .read = read_glm4moe};
