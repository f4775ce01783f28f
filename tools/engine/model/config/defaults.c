/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.c - what a setting is that a file leaves out. In config.json that is for the class of the model to
 * say, as transformers' configuration classes do; GGUF files have one rule for all. What a class has no
 * default for, or what only the tensors can say, is not here. tests/data/families/defaults compares the two.
 */
#include "tools/engine/model/config/config.h"

#include <string.h>

static const struct kt_defaults classes[] = {
    {.name = "LlamaForCausalLM", .rope_base = 1e4, .eps = 1e-6, .context = 2048},
    {.name = "MistralForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 131072,
     .n_kv_heads = 8,
     .window = 4096},
    {.name = "MixtralForCausalLM",
     .rope_base = 1e6,
     .eps = 1e-5,
     .context = 131072,
     .n_kv_heads = 8,
     .n_experts = 8,
     .top_k = 2},
    {.name = "Qwen2ForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 32,
     .window = 4096},
    {.name = "Qwen3ForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 32,
     .window = 4096,
     .head_size = 128},
    {.name = "Qwen3MoeForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 4,
     .window = 4096,
     .n_experts = 128,
     .top_k = 8},
    {.name = "GptOssForCausalLM",
     .rope_base = 1.5e5,
     .eps = 1e-5,
     .context = 131072,
     .n_kv_heads = 8,
     .window = 128,
     .head_size = 64,
     .n_experts = 128,
     .top_k = 4},
    {.name = "Glm4MoeForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-5,
     .context = 131072,
     .n_kv_heads = 8,
     .rotated = 0.5,
     .n_experts = 128,
     .top_k = 8,
     .n_shared = 1,
     .n_dense = 1,
     .n_mtp = 1},
    {.name = "MiniMaxM2ForCausalLM",
     .rope_base = 5e6,
     .eps = 1e-6,
     .context = 196608,
     .n_kv_heads = 8,
     .rotated = 1,
     .head_size = 128,
     .n_experts = 256,
     .top_k = 8},
    {.name = "DeepseekV3ForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 4096,
     .n_experts = 256,
     .top_k = 8,
     .n_shared = 1,
     .n_dense = 3,
     .n_mtp = 1},
    {.name = "DeepseekV2ForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 2048,
     .n_experts = 64,
     .n_shared = 2},
    {.name = "Glm4MoeLiteForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-5,
     .context = 202752,
     .n_experts = 64,
     .top_k = 4,
     .n_shared = 1,
     .n_dense = 1},
    {.name = "Qwen3NextForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 2,
     .rotated = 0.25,
     .head_size = 256,
     .n_experts = 512,
     .top_k = 10,
     .shared_width = 512},
    {.name = "Qwen3_5MoeForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 2,
     .rotated = 0.25,
     .head_size = 256,
     .n_experts = 256,
     .top_k = 8,
     .shared_width = 512},
    {.name = "Qwen3_5ForCausalLM",
     .rope_base = 1e4,
     .eps = 1e-6,
     .context = 32768,
     .n_kv_heads = 4,
     .rotated = 0.25,
     .head_size = 256},
};

static const struct kt_defaults gguf = {.name = "", .rope_base = 1e4};

const struct kt_defaults *kt_defaults_find(const struct kt_settings *s)
{
    char name[80];
    size_t length = strcspn(s->architecture, " ");
    const char *images = strstr(s->architecture, "ForConditionalGeneration");
    if (s->is_gguf)
        return &gguf;
    /* The language model of one that sees images. */
    (void)snprintf(name, sizeof(name), "%.*s%s", images ? (int)(images - s->architecture) : (int)length,
                   s->architecture, images ? "ForCausalLM" : "");
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return &gguf;
}
