/* SPDX-License-Identifier: Apache-2.0 */
/* exaone.c - EXAONE 4, which norms what mixers and networks give, and K-EXAONE: layers that slide are
 * rotated, and then those that see all tokens are not. */
#include "tools/engine/model/config/config.h"

static uint64_t read_window(struct kt_settings *s, const struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    return kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
}

static void read_attention(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = read_window(s, c);
    if (window > 0)
        kt_engine_config_turns(s, c, window, 4);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.biases = s->is_gguf ? KT_BIASES_ANY : KT_BIASES_NONE;
}

static void read_exaone4(struct kt_settings *s, struct kt_engine_config *c)
{
    read_attention(s, c);
    kt_engine_config_norms(c, KT_NORMS_AFTER);
}

static void read_exaone_moe(struct kt_settings *s, struct kt_engine_config *c)
{
    read_attention(s, c);
    kt_engine_config_sigmoid_router(s, c);
    c->router.scale =
        (float)kt_settings_real(s, "expert_weights_scale", "routed_scaling_factor", s->is_gguf ? 1 : 2.5);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c,
                                     kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace",
                                                      c->defaults->n_dense));
    else
        (void)kt_settings_has(s, NULL, "first_k_dense_replace");
    kt_engine_config_shared(s, c);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    /* A window is enough, though no layer slides. */
    kt_engine_config_unrotated(c, !s->is_gguf && read_window(s, c) > 0);
}

const struct kt_family kt_family_exaone4 = {.name = "exaone4",
                                            .classes = " Exaone4ForCausalLM ",
                                            .read = read_exaone4,
                                            .read_layers = read_layers};

static const char *const skipped[] = {"mtp.", NULL};

const struct kt_family kt_family_exaone_moe = {.name = "exaone-moe",
                                               .classes = " ExaoneMoeForCausalLM ",
                                               .names = {.skipped = skipped,
                                                         .json_correction = "mlp.e_score_correction_bias"},
                                               .skips_mtp = true,
                                               .read = read_exaone_moe,
                                               .read_layers = read_layers};
