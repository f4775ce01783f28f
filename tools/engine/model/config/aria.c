/* SPDX-License-Identifier: Apache-2.0 */
/* aria.c - the text of Aria: experts as in Mixtral, beside shared ones of the same width. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>

static void read_aria(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t n = kt_settings_uint(s, NULL, "moe_num_shared_experts", c->defaults->n_shared);
    kt_engine_config_biases(s, c);
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false);
    c->router.routing = KT_ROUTING_TOP;
    c->has_shared = n > 0;
    c->shared_width = n <= 64 ? n * c->dense_width : 0;
    if (n > 64)
        kt_settings_fail(s, KT_E_FORMAT, "%" PRIu64 " shared experts", n);
}

/* Of models that see images. */
static const char *const skipped[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                      "model.multi_modal_projector.", NULL};

/* llama.cpp has no such files. */
const struct kt_family kt_family_aria = {.name = "aria",
                                         .classes = " AriaTextForCausalLM AriaForConditionalGeneration ",
                                         .names = {.json_router = "mlp.router", .skipped = skipped},
                                         .read = read_aria};
