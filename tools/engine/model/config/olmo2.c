/* SPDX-License-Identifier: Apache-2.0 */
/* olmo2.c - OLMo 2, OLMo 3, whose layers slide but for every fourth, and FlexOlmo, which has experts: what
 * mixers and networks give is normed, not what they read; queries and keys are normed as whole vectors. */
#include "tools/engine/model/config/config.h"

#include <string.h>

static void read_olmo2(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    kt_engine_config_norms(c, KT_NORMS_AFTER);
    c->attention.norm = KT_HEAD_NORM_WHOLE;
}

/* GGUF files call them the same. Only the rope of layers that see all tokens is scaled; what config.json has
 * of ropes without types of layers is theirs. */
static void read_olmo3(struct kt_settings *s, struct kt_engine_config *c)
{
    bool is_olmo3 = strcmp(s->architecture, "Olmo3ForCausalLM") == 0;
    const json_t *types = json_object_get(kt_settings_json(s, "rope_parameters"), "full_attention");
    read_olmo2(s, c);
    if (is_olmo3 || kt_settings_has(s, "attention.sliding_window", NULL))
        kt_engine_config_windows(s, c, 4);
    if (is_olmo3 && !types) {
        c->window_rope.scaling = KT_ROPE_PLAIN;
        c->window_rope.base = c->defaults->rope_base;
    }
}

static void read_flex_olmo(struct kt_settings *s, struct kt_engine_config *c)
{
    read_olmo2(s, c);
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", false);
}

const struct kt_family kt_family_olmo2 = {.name = "olmo2",
                                          .classes = " Olmo2ForCausalLM Olmo3ForCausalLM ",
                                          .read = read_olmo3,
                                          .ropes_by_type = true};
/* GGUF files have no such models. */
const struct kt_family kt_family_flex_olmo = {.name = "flex_olmo",
                                              .classes = " FlexOlmoForCausalLM ",
                                              .read = read_flex_olmo};
