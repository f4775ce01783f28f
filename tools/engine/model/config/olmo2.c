/* SPDX-License-Identifier: Apache-2.0 */
/* olmo2.c - OLMo 2 and FlexOlmo, which has experts: what mixers and networks give is normed, not what they
 * read; queries and keys are normed as whole vectors. */
#include "tools/engine/model/config/config.h"

static void read_olmo2(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    kt_engine_config_norms(c, KT_NORMS_AFTER);
    c->attention.norm = KT_HEAD_NORM_WHOLE;
}

static void read_flex_olmo(struct kt_settings *s, struct kt_engine_config *c)
{
    read_olmo2(s, c);
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", false);
}

const struct kt_family kt_family_olmo2 = {.name = "olmo2",
                                          .classes = " Olmo2ForCausalLM ",
                                          .read = read_olmo2};
/* GGUF files have no such models. */
const struct kt_family kt_family_flex_olmo = {.name = "flex_olmo",
                                              .classes = " FlexOlmoForCausalLM ",
                                              .read = read_flex_olmo};
