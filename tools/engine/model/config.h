/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what a model is made of, as its checkpoint says. */
#ifndef KT_ENGINE_MODEL_CONFIG_H
#define KT_ENGINE_MODEL_CONFIG_H

#include <kt/kt.h>
#include <stdbool.h>

/** A family of models: what they have in common and files do not say. */
struct kt_family {
    const char *name;      /**< as GGUF files call it */
    const char *classes;   /**< " Qwen3MoeForCausalLM " of config.json */
    bool norms_heads;      /**< queries and keys are normed, head by head */
    uint32_t gguf_pairing; /**< enum kt_rope_pairing; of safetensors always NEOX */
};

struct kt_model_config {
    const struct kt_family *family;
    bool is_gguf;
    uint32_t n_layers, n_heads, n_kv_heads, head_size;
    uint64_t hidden_size, context_length;
    uint32_t n_experts, top_k;
    bool normalizes; /**< weights of the chosen experts sum up to 1 */
    bool ties;       /**< the head is the embedding */
    float eps;
    uint32_t pairing;
    struct kt_rope_params rope; /**< divisors NULL: they are loaded with the weights */
};

/** The family of a GGUF architecture or of a class of config.json; NULL: none. */
const struct kt_family *kt_family_find(const char *name, bool is_gguf);
/** Their names, ", " between. */
void kt_family_list(char *text, size_t size);

enum kt_status kt_config_read(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                              struct kt_error *error);
enum kt_status kt_config_read_gguf(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                                   struct kt_error *error);
enum kt_status kt_config_read_json(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                                   struct kt_error *error);

#endif
