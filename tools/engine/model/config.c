/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/model/config.h"

#include "tools/engine/base/fail.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct kt_family families[] = {
    {"qwen3moe", " Qwen3MoeForCausalLM ", true, KT_ROPE_NEOX},
    {"qwen3", " Qwen3ForCausalLM ", true, KT_ROPE_NEOX},
    {"qwen2", " Qwen2ForCausalLM ", false, KT_ROPE_NEOX},
    /* Converters permute its queries and keys, so that pairs are neighbours. */
    {"llama", " LlamaForCausalLM MixtralForCausalLM ", false, KT_ROPE_NORM},
};

const struct kt_family *kt_family_find(const char *name, bool is_gguf)
{
    char word[80];
    snprintf(word, sizeof(word), " %.70s ", name);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (is_gguf ? strcmp(families[i].name, name) == 0 : strstr(families[i].classes, word) != NULL)
            return &families[i];
    return NULL;
}

void kt_family_list(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? ", " : "", families[i].name);
}

/* Sizes that no model has would only overflow later. */
static enum kt_status check(const struct kt_model_config *c, struct kt_error *error)
{
    const struct {
        const char *what;
        uint64_t value, least, most;
    } bounds[] = {{"layers", c->n_layers, 1, 4096},
                  {"hidden size", c->hidden_size, 1, 1 << 20},
                  {"attention heads", c->n_heads, 1, 4096},
                  {"heads of keys", c->n_kv_heads, 1, 4096},
                  {"numbers of a head", c->head_size, 2, 1024},
                  {"rotated numbers of a head", c->rope.size, 2, c->head_size},
                  {"experts", c->n_experts, 0, 4096},
                  {"experts of a token", c->top_k, c->n_experts ? 1 : 0, c->n_experts ? c->n_experts : 0},
                  {"context length", c->context_length, 1, UINT64_C(1) << 32}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            return kt_engine_fail(error, KT_E_FORMAT,
                                  "the model's configuration: %s: %" PRIu64 ", which must be %" PRIu64
                                  " to %" PRIu64,
                                  bounds[i].what, bounds[i].value, bounds[i].least, bounds[i].most);
    if (c->n_heads % c->n_kv_heads != 0 || c->head_size % 2 != 0 || c->rope.size % 2 != 0)
        return kt_engine_fail(
            error, KT_E_FORMAT,
            "the model's configuration: %u heads of %u numbers, %u of them rotated, over %u heads of "
            "keys",
            c->n_heads, c->head_size, c->rope.size, c->n_kv_heads);
    if (!(c->eps >= 0 && c->eps < 1) || !(c->rope.base > 1))
        return kt_engine_fail(error, KT_E_FORMAT,
                              "the model's configuration: an epsilon of %g, a rope base of %g",
                              (double)c->eps, c->rope.base);
    return KT_OK;
}

enum kt_status kt_config_read(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                              struct kt_error *error)
{
    const struct kt_rope_params rope = KT_ROPE_PARAMS_INIT;
    *config = (struct kt_model_config){.is_gguf = kt_checkpoint_value_count(checkpoint) > 0, .rope = rope};
    enum kt_status status =
        (config->is_gguf ? kt_config_read_gguf : kt_config_read_json)(checkpoint, config, error);
    if (status != KT_OK)
        return status;
    config->pairing = config->is_gguf ? config->family->gguf_pairing : KT_ROPE_NEOX;
    return check(config, error);
}
