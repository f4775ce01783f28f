/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_refusals.c - models whose configuration contradicts their tensors, asks for what is not computed, or
 * which lack a tensor: the tiny models of tests/data/families with one thing changed. Each is refused by
 * name, unless what was changed says nothing.
 */
#include "tests/engine/families/opened.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <kt/engine.h>
#include <stdlib.h>
#include <string.h>

/* One of: a key of config.json with another value; a key of the GGUF file; a tensor left out, of that file
 * which has it; more tensors, each of one number, their names with blanks between; a vector of so many
 * numbers, or a matrix of 8x32, added to safetensors. */
struct change {
    const char *family, *key, *value, *gguf_key, *tensor;
    enum kt_status status;
    const char *words, *more;
};

#define FORMAT KT_E_FORMAT
#define UNSUPPORTED KT_E_UNSUPPORTED
#define CONFIG(family, key, value, status, words)           \
    {                                                       \
        family, key, value, NULL, NULL, status, words, NULL \
    }
#define KEY(family, key, value, status, words)              \
    {                                                       \
        family, NULL, value, key, NULL, status, words, NULL \
    }
#define LACK(family, tensor, status, words)                   \
    {                                                         \
        family, NULL, NULL, NULL, tensor, status, words, NULL \
    }
#define MORE(family, more, status, words)                   \
    {                                                       \
        family, NULL, NULL, NULL, NULL, status, words, more \
    }
#define ADD(family, tensor, size, status, words)              \
    {                                                         \
        family, NULL, size, NULL, tensor, status, words, NULL \
    }

#define L0 "model.layers.0."

static const struct change changes[] = {
    /* What says nothing, and the same where it says something. */
    CONFIG("qwen3moe", "routed_scaling_factor", "1", KT_OK, ""),
    CONFIG("qwen3moe", "routed_scaling_factor", "2", UNSUPPORTED, "routed_scaling_factor is not computed"),
    CONFIG("qwen3moe", "n_group", "1", KT_OK, ""),
    CONFIG("qwen3moe", "vocab_size", "100", FORMAT, "tokens, vocab_size of config.json is 100"),
    CONFIG("deepseek-v3", "n_shared_experts", "3", FORMAT, "but the configuration has"),
    CONFIG("qwen3next", "shared_expert_intermediate_size", "80", FORMAT, "but the configuration has 80"),
    CONFIG("qwen3moe", "kv_lora_rank", "1", UNSUPPORTED, "kv_lora_rank is not computed"),
    CONFIG("qwen3moe", "partial_rotary_factor", "1.0", KT_OK, ""),
    CONFIG("qwen3moe", "partial_rotary_factor", "0.5", UNSUPPORTED,
           "partial_rotary_factor is not computed for"),
    CONFIG("glm4moe", "partial_rotary_factor", "-1", FORMAT, "a partial_rotary_factor of -1"),
    CONFIG("qwen3moe", "num_attention_heads", "4294967300", FORMAT, "attention heads: 4294967295"),
    CONFIG("qwen3moe", "num_key_value_heads", "[0, 2, 2, 0]", KT_OK, ""),
    CONFIG("qwen3moe", "num_key_value_heads", "[2, 1, 2, 2]", UNSUPPORTED, "with 2 and with 1 heads of keys"),
    CONFIG("qwen3moe-yarn", "rope_scaling.factor", "-1", FORMAT, "'yarn' of rope has no factor above 0"),
    CONFIG("gpt-oss", "layer_types", "[\"full_attention\",\"chunked_attention\",\"\",\"\"]", UNSUPPORTED,
           "layer 1 is of the type 'chunked_attention'"),
    CONFIG("gpt-oss", "layer_types", "[\"full_attention\"]", FORMAT, "names 1 layers, there are 4"),
    CONFIG("gpt-oss", "sliding_window", "null", FORMAT, "sliding_window is missing"),
    CONFIG("gpt-oss", "sliding_window", "0", FORMAT, "window of 0 tokens"),
    KEY("gpt-oss", "attention.sliding_window", "0", FORMAT, "window of 0 tokens"),
    CONFIG("gpt-oss", "attention_bias", "false", FORMAT,
           "unexpected tensor model.layers.0.self_attn.q_proj.bias"),
    CONFIG("gpt-oss", "rope_scaling.rope_type", "\"longrope\"", UNSUPPORTED, "'longrope'"),
    CONFIG("gpt-oss", "head_dim", "16", FORMAT, "q_proj"),
    CONFIG("gpt-oss", "num_experts_per_tok", "9", FORMAT, "num_experts_per_tok"),
    CONFIG("gpt-oss", "hidden_act", "\"gelu\"", UNSUPPORTED, "gelu"),
    LACK("gpt-oss", "model.layers.2.self_attn.sinks", KT_E_NOT_FOUND, "model.layers.2.self_attn.sinks"),
    LACK("gpt-oss", "model.layers.1.self_attn.k_proj.bias", FORMAT, "k_proj.bias is missing"),
    LACK("gpt-oss", "model.layers.1.self_attn.o_proj.bias", FORMAT, "o_proj.bias is missing"),
    LACK("gpt-oss", "model.layers.3.mlp.router.bias", FORMAT, "layer 3: the router has no bias"),
    LACK("gpt-oss", "model.layers.1.mlp.experts.down_proj_bias", FORMAT,
         "layer 1: experts have no bias of down"),
    LACK("gpt-oss", "blk.2.attn_sinks.weight", KT_E_NOT_FOUND, "blk.2.attn_sinks"),
    LACK("gpt-oss", "blk.1.attn_output.bias", FORMAT, "blk.1.attn_output.bias is missing"),
    LACK("gpt-oss", "blk.0.ffn_up_exps.bias", FORMAT, "layer 0: experts have no bias of up"),
    CONFIG("glm4moe", "attention_bias", "false", FORMAT,
           "unexpected tensor model.layers.0.self_attn.q_proj.bias"),
    CONFIG("glm4moe", "use_qk_norm", "true", KT_E_NOT_FOUND, "q_norm"),
    CONFIG("glm4moe-norms", "use_qk_norm", "false", UNSUPPORTED, "_norm.weight"),
    CONFIG("glm4moe", "n_shared_experts", "2", FORMAT, "has 64 rows, but the configuration has 128"),
    KEY("glm4moe", "expert_shared_count", "2", FORMAT, "has 64 rows, but the configuration has 128"),
    CONFIG("glm4moe", "n_shared_experts", "0", UNSUPPORTED, "shared_experts"),
    CONFIG("glm4moe", "intermediate_size", "128", FORMAT, "has 96 rows, but the configuration has 128"),
    CONFIG("glm4moe", "first_k_dense_replace", "2", FORMAT, "layer 1 has 8 experts"),
    KEY("glm4moe", "leading_dense_block_count", "2", FORMAT, "layer 1 has 8 experts"),
    CONFIG("glm4moe", "first_k_dense_replace", "0", KT_E_NOT_FOUND, "model.layers.0.mlp.gate"),
    CONFIG("glm4moe", "first_k_dense_replace", "5", FORMAT, "5 dense layers of 4"),
    CONFIG("glm4moe", "num_nextn_predict_layers", "0", UNSUPPORTED, "model.layers.4."),
    CONFIG("glm4moe", "num_nextn_predict_layers", "99", FORMAT, "99 of 4 layers predict"),
    KEY("glm4moe", "nextn_predict_layers", "5", FORMAT, "5 of 5 layers predict"),
    KEY("glm4moe", "nextn_predict_layers", "2", FORMAT, "block 3 is no such layer"),
    LACK("glm4moe", "blk.4.nextn.eh_proj.weight", FORMAT, "block 4 is no such layer"),
    CONFIG("glm4moe", "n_group", "3", FORMAT, "2 of 8 experts in 1 of 3 groups"),
    CONFIG("glm4moe", "routed_scaling_factor", "-1", FORMAT, "multiplied by -1"),
    KEY("glm4moe", "expert_gating_func", "1", UNSUPPORTED, "expert_gating_func 1"),
    LACK("glm4moe", "model.layers.3.mlp.gate.e_score_correction_bias", KT_E_NOT_FOUND,
         "e_score_correction_bias"),
    LACK("glm4moe", "blk.2.exp_probs_b.bias", KT_E_NOT_FOUND, "blk.2.exp_probs_b.bias"),
    LACK("glm4moe", "model.layers.2.mlp.shared_experts.up_proj.weight", KT_E_NOT_FOUND,
         "shared_experts.up_proj"),
    LACK("glm4moe", "blk.0.post_attention_norm.weight", KT_E_NOT_FOUND, "blk.0.post_attention_norm"),
    CONFIG("minimax-m2", "qk_norm_type", "\"per_head\"", UNSUPPORTED, "'per_head'"),
    CONFIG("minimax-m2", "use_qk_norm", "false", UNSUPPORTED, "use_qk_norm"),
    CONFIG("minimax-m2", "use_routing_bias", "false", UNSUPPORTED, "use_routing_bias"),
    CONFIG("minimax-m2", "scoring_func", "\"softmax\"", UNSUPPORTED, "'softmax'"),
    CONFIG("minimax-m2", "attn_type_list", "[1, 0, 1, 1]", UNSUPPORTED, "layer 1 has another attention"),
    CONFIG("minimax-m2", "rotary_dim", "64", FORMAT, "64 of 32 numbers"),
    CONFIG("minimax-m2", "layernorm_mlp_beta", "2.0", UNSUPPORTED, "layernorm_mlp_beta"),
    CONFIG("minimax-m2", "shared_intermediate_size", "64", UNSUPPORTED, "shared_intermediate_size"),
    CONFIG("minimax-m2", "num_expert_group", "4", UNSUPPORTED, "num_expert_group"),
    CONFIG("minimax-m2", "sliding_window", "64", UNSUPPORTED, "sliding_window"),
    LACK("minimax-m2", "model.layers.1.self_attn.q_norm.weight", KT_E_NOT_FOUND, "q_norm"),
    CONFIG("glm4moe", "layer_types", "[\"full_attention\",\"x\",\"x\",\"x\"]", UNSUPPORTED, "layer 1"),
    CONFIG("qwen3moe", "layer_types", "[\"full_attention\",\"x\",\"x\",\"x\"]", KT_OK, ""),
    /* Step: lists, and what its class computes whatever the file says. */
    CONFIG("step3p5", "swiglu_limits_shared", "[0.5, 0.25]", FORMAT, "has 2 numbers for 4 layers"),
    CONFIG("step3p5", "swiglu_limits_shared", "0.5", FORMAT, "swiglu_limits_shared is not a list"),
    CONFIG("step3p5", "swiglu_limits", "[0.5]", FORMAT, "has 1 elements, but layer"),
    CONFIG("step3p5", "swiglu_limits_shared", "[0.5, -1, 0, 0, 0]", FORMAT, "the limit of layer 1 is -1"),
    CONFIG("step3p5", "rope_theta", "[5e5, 1e4, 4e5, 1e4, 5e5]", UNSUPPORTED,
           "rope_theta has 500000 and 400000 for layers of the type 'full_attention'"),
    CONFIG("step3p5", "rope_theta", "[5e5, 1e4, \"x\", 1e4, 5e5]", FORMAT, "rope_theta is not a number"),
    CONFIG("step3p5", "partial_rotary_factors", "[0.5, 2.0, 0.5, 2.0, 0.5]", FORMAT,
           "a partial_rotary_factor of 2"),
    CONFIG("step3p5", "partial_rotary_factor", "0.5", UNSUPPORTED, "only a list of them is"),
    CONFIG("step3p5", "rope_parameters", "{\"rope_theta\": 1e6}", UNSUPPORTED, "an object for each type"),
    CONFIG("step3p5", "moe_layers_enum", "\"1,2,9\"", FORMAT, "moe_layers_enum names other layers"),
    CONFIG("step3p5", "moe_layers_enum", "\"1;2\"", FORMAT, "moe_layers_enum names other layers"),
    CONFIG("step3p5", "moe_layers_enum", "[1, 2, 3]", KT_OK, ""),
    CONFIG("step3p5", "moe_layers_enum", "[1, 2, 3, 4]", KT_OK, ""),
    CONFIG("step3p5", "moe_layers_enum", "[2, 3]", FORMAT, "layer 1 has 8 experts"),
    CONFIG("step3p5", "attention_other_setting.num_attention_groups", "1", UNSUPPORTED,
           "attention_other_setting/num_attention_groups is another one"),
    CONFIG("step3p5", "attention_other_setting.head_dim", "32", UNSUPPORTED, "head_dim is another one"),
    CONFIG("step3p5", "attention_other_setting.num_attention_heads", "5", FORMAT, "5 heads of 16 numbers"),
    CONFIG("step3p5", "num_sliding_attention_heads", "4", FORMAT, "q_proj"),
    CONFIG("step3p5", "per_layer_config", "{\"1\": {\"num_attention_heads\": 6}}", KT_OK, ""),
    CONFIG("step3p5", "per_layer_config", "{\"1\": {\"num_attention_heads\": 4}}", UNSUPPORTED,
           "per_layer_config has something else for layer 1"),
    CONFIG("step3p5", "per_layer_config", "{\"0\": {\"num_attention_heads\": 4, \"head_dim\": 8}}",
           UNSUPPORTED, "per_layer_config has something else for layer 0"),
    CONFIG("step3p5", "gating", "\"per-element\"", UNSUPPORTED, "other gates are not computed"),
    CONFIG("step3p5", "use_head_wise_attn_gate", "false", UNSUPPORTED, "use_head_wise_attn_gate is false"),
    CONFIG("step3p5", "norm_expert_weight", "false", UNSUPPORTED, "norm_expert_weight is false"),
    CONFIG("step3p5", "moe_router_activation", "\"softmax\"", UNSUPPORTED, "'softmax' is not computed"),
    CONFIG("step3p5", "use_bidirectional_attention", "true", UNSUPPORTED, "use_bidirectional_attention"),
    CONFIG("step3p5", "share_expert_dim", "32", FORMAT, "but the configuration has 32"),
    LACK("step3p5", "model.layers.1.self_attn.g_proj.weight", KT_E_NOT_FOUND, "self_attn.g_proj"),
    LACK("step3p5", "model.layers.2.moe.router_bias", KT_E_NOT_FOUND, "moe.router_bias"),
    ADD("step3p5", "model.layers.1.moe.up_proj.bias", "8x32", FORMAT,
        "unexpected tensor model.layers.1.moe.up_proj.bias"),
    ADD("granitemoe", "model.layers.1.block_sparse_moe.input_linear.bias", "6x128", FORMAT,
        "unexpected tensor model.layers.1.block_sparse_moe.input_linear.bias"),
    /* Granite with windows. */
    CONFIG("granitemoe-swa", "layer_rope_theta", "[1e4, 2e4, 3e4]", UNSUPPORTED, "more than two bases"),
    CONFIG("granitemoe-swa", "layer_rope_theta", "[1e4, 0.5, 0]", FORMAT, "layer 1 has a rope base of 0.5"),
    CONFIG("granitemoe-swa", "layer_rope_theta", "[0, 1e4]", FORMAT, "has 2 numbers for 3 layers"),
    LACK("granitemoe-swa", "model.layers.1.self_attn.sinks", KT_E_NOT_FOUND, "self_attn.sinks"),
    LACK("granitemoe-swa", "blk.1.attn_sinks.weight", KT_E_NOT_FOUND, "blk.1.attn_sinks"),
    /* MiniMax-M3: layers that choose blocks of keys. */
    CONFIG("minimax-m3", "sparse_attention_config.sparse_attention_freq", "[0, 0, 1]", UNSUPPORTED,
           "layer 2 attends to chosen blocks of keys"),
    CONFIG("minimax-m3", "layer_types", "[\"full_attention\",\"full_attention\",\"minimax_m3_sparse\"]",
           UNSUPPORTED, "layer 2 is of the type 'minimax_m3_sparse'"),
    CONFIG("minimax-m3", "layer_types", "[\"full_attention\",\"full_attention\",\"full_attention\"]", KT_OK,
           ""),
    CONFIG("minimax-m3", "rotary_dim", "16", KT_OK, ""),
    CONFIG("minimax-m3", "rotary_dim", "32", UNSUPPORTED, "rotary_dim is 32, partial_rotary_factor means 16"),
    CONFIG("minimax-m3", "n_shared_experts", "2", UNSUPPORTED, "n_shared_experts is not 1"),
    CONFIG("minimax-m3", "swiglu_alpha", "0", FORMAT, "a swiglu_alpha of 0"),
    CONFIG("minimax-m3", "moe_layer_freq", "[0, 1]", FORMAT, "moe_layer_freq has 2 numbers for 3 layers"),
    CONFIG("minimax-m3", "hidden_act", "\"gelu\"", UNSUPPORTED, "gelu"),
    CONFIG("minimax-m2", "hidden_act", "\"swigluoai\"", UNSUPPORTED, "swigluoai"),
    CONFIG("internlm3", "bias", "false", UNSUPPORTED, "only one of qkv_bias and bias is true"),
    CONFIG("internlm3", "sliding_window", "64", UNSUPPORTED, "sliding_window is not computed"),
    /* Latent attention. */
    CONFIG("deepseek-v3", "use_cache", "true", KT_OK, ""),
    CONFIG("deepseek-v3", "kv_lora_rank", "48", FORMAT, "kv_a_proj_with_mqa has 72 x 64 numbers"),
    CONFIG("deepseek-v3", "kv_lora_rank", "0", FORMAT, "the rank of keys and values: 0"),
    CONFIG("deepseek-v3", "kv_lora_rank", "null", FORMAT, "kv_lora_rank is missing"),
    CONFIG("deepseek-v3", "q_lora_rank", "24", FORMAT, "q_a_proj has 40 x 64"),
    CONFIG("deepseek-v3", "q_lora_rank", "null", KT_E_NOT_FOUND, "self_attn.q_proj"),
    CONFIG("deepseek-v2-lite", "q_lora_rank", "24", KT_E_NOT_FOUND, "self_attn.q_a_proj"),
    CONFIG("deepseek-v3", "v_head_dim", "32", FORMAT, "kv_b_proj has 224 x 56 numbers instead of 256 x 56"),
    CONFIG("deepseek-v3", "v_head_dim", "4000", FORMAT, "numbers of a value: 4000"),
    CONFIG("deepseek-v3", "qk_rope_head_dim", "8", FORMAT, "q_b_proj has 192 x 40 numbers"),
    CONFIG("deepseek-v3", "qk_rope_head_dim", "17", FORMAT, "17 of them rotated"),
    CONFIG("deepseek-v3", "num_attention_heads", "8", FORMAT, "q_b_proj has 192 x 40"),
    CONFIG("deepseek-v3", "n_group", "5", FORMAT, "3 of 12 experts in 2 of 5 groups"),
    CONFIG("deepseek-v3", "topk_group", "9", FORMAT, "9 of 4 groups"),
    CONFIG("deepseek-v3", "n_group", "null", FORMAT, "n_group is missing"),
    CONFIG("deepseek-v3", "routed_scaling_factor", "null", FORMAT, "routed_scaling_factor is missing"),
    CONFIG("deepseek-v3", "scoring_func", "\"softmax\"", UNSUPPORTED, "scoring_func 'softmax'"),
    CONFIG("deepseek-v3", "topk_method", "\"greedy\"", UNSUPPORTED, "topk_method 'greedy'"),
    CONFIG("deepseek-v2", "topk_method", "\"noaux_tc\"", UNSUPPORTED, "topk_method 'noaux_tc'"),
    CONFIG("deepseek-v2", "norm_topk_prob", "true", UNSUPPORTED, "norm_topk_prob"),
    CONFIG("deepseek-v3", "n_shared_experts", "0", UNSUPPORTED, "mlp.shared_experts"),
    CONFIG("deepseek-v3", "moe_layer_freq", "2", UNSUPPORTED, "moe_layer_freq"),
    CONFIG("deepseek-v3", "first_k_dense_replace", "9", FORMAT, "9 dense layers of 4"),
    CONFIG("deepseek-v3", "num_hidden_layers", "3", UNSUPPORTED,
           "model.layers.4."), /* one layer may predict the token after the next */
    CONFIG("kimi-k2", "num_hidden_layers", "3", UNSUPPORTED, "model.layers.3."),
    CONFIG("deepseek-v3", "num_hidden_layers", "2", UNSUPPORTED, "model.layers.3."),
    CONFIG("glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\",\"sparse\",\"sparse\"]", KT_OK, ""),
    CONFIG("glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\"]", FORMAT, "2 layers of 4"),
    CONFIG("glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\",\"odd\",\"sparse\"]", UNSUPPORTED,
           "'odd' of layer 2"),
    /* Settings of an indexer without its tensors, and the reverse. */
    CONFIG("deepseek-v3", "architectures", "[\"DeepseekV32ForCausalLM\"]", KT_E_NOT_FOUND,
           L0 "self_attn.indexer.wq_b"),
    CONFIG("deepseek-v3", "index_topk", "16", UNSUPPORTED, "index_topk is not computed"),
    CONFIG("deepseek-v32", "architectures", "[\"DeepseekV3ForCausalLM\"]", UNSUPPORTED, "index_topk is not"),
    ADD("deepseek-v3", L0 "self_attn.indexer.k_norm.bias", "32", UNSUPPORTED, "indexer.k_norm.bias"),
    MORE("deepseek-v3", "blk.1.indexer.attn_k.weight", UNSUPPORTED, "blk.1.indexer.attn_k.weight"),
    LACK("deepseek-v32", L0 "self_attn.indexer.k_norm.bias", KT_E_NOT_FOUND, "indexer.k_norm.bias"),
    LACK("deepseek-v32", "blk.2.indexer.proj.weight", KT_E_NOT_FOUND, "blk.2.indexer.proj"),
    KEY("deepseek-v32", "attention.indexer.top_k", "0", FORMAT,
        "attention.indexer.top_k is 0, which must be 1"),
    CONFIG("deepseek-v32", "index_n_heads", "257", FORMAT, "index_n_heads is 257, which must be 1 to 256"),
    CONFIG("deepseek-v32", "index_head_dim", "15", FORMAT, "index_head_dim is 15, which must be 16 to 1024"),
    CONFIG("deepseek-v32", "index_head_dim", "33", FORMAT, "index_head_dim is 33, which must be even"),
    CONFIG("deepseek-v32", "index_head_dim", "64", FORMAT, "indexer.wq_b has 1024 x 40 numbers"),
    CONFIG("deepseek-v32", "index_topk", "100000", KT_OK, ""),
    CONFIG("deepseek-v32", "q_lora_rank", "null", FORMAT, "q_lora_rank is missing"),
    CONFIG("deepseek-v32", "indexer_rope_interleave", "true", UNSUPPORTED, "indexer_rope_interleave is true"),
    CONFIG("glm-dsa", "indexer_rope_interleave", "false", UNSUPPORTED, "indexer_rope_interleave is false"),
    CONFIG("glm-dsa", "rope_interleave", "false", UNSUPPORTED, "rope_interleave is false"),
    CONFIG("glm-dsa", "index_topk_freq", "1", KT_E_NOT_FOUND, "model.layers.2.self_attn.indexer"),
    CONFIG("glm-dsa", "index_topk_pattern", "\"FFSSF\"", KT_OK, ""),
    CONFIG("glm-dsa", "index_topk_pattern", "\"FFSS\"", FORMAT, "index_topk_pattern names 4 layers"),
    CONFIG("glm-dsa", "index_topk_pattern", "\"FFSSX\"", UNSUPPORTED, "the indexer of layer 4 is 'X'"),
    CONFIG("glm-dsa", "index_topk_pattern", "\"SFSSF\"", FORMAT, "layer 0 shares"),
    CONFIG("glm-dsa", "indexer_types", "3", FORMAT, "indexer_types is not a list"),
    CONFIG("glm-dsa", "indexer_types", "[\"full\",\"full\",\"shared\",\"shared\",\"none\"]", UNSUPPORTED,
           "the indexer of layer 4 is 'none'"),
    /* A layer that shares may have an indexer's tensors. */
    MORE("glm-dsa", "blk.2.indexer.attn_k.weight blk.2.indexer.k_norm.bias", KT_OK, ""),
    CONFIG("deepseek-v3", "index_topk", "2048", UNSUPPORTED, "index_topk"),
    /* Gated DeltaNet. */
    CONFIG("qwen3next", "linear_num_key_heads", "3", FORMAT, "4 value heads of DeltaNet over 3 key heads"),
    CONFIG("qwen3next", "linear_num_value_heads", "0", FORMAT,
           "value heads of DeltaNet: 0, which must be 1 to 4096"),
    CONFIG("qwen3next", "linear_num_value_heads", "null", FORMAT, "linear_num_value_heads is missing"),
    CONFIG("qwen3next", "linear_num_value_heads", "4294967300", FORMAT,
           "value heads of DeltaNet: 4294967295"),
    CONFIG("qwen3next", "linear_key_head_dim", "24", UNSUPPORTED,
           "heads of DeltaNet have 24 and 32 numbers, which must be multiples of 16"),
    CONFIG("qwen3next", "linear_value_head_dim", "1024", FORMAT, "numbers of a value head of DeltaNet: 1024"),
    CONFIG("qwen3next", "linear_value_head_dim", "16", FORMAT,
           "in_proj_qkvz has 384 x 64 numbers instead of 256 x 64"),
    CONFIG("qwen3next", "linear_conv_kernel_dim", "9", FORMAT,
           "inputs of DeltaNet's convolution: 9, which must be 2 to 8"),
    CONFIG("qwen3next", "linear_conv_kernel_dim", "3", FORMAT,
           "conv1d has 256 x 4 numbers instead of 256 x 3"),
    CONFIG("qwen3next", "layer_types", "[\"linear_attention\"]", FORMAT, "1 layer_types of 4 layers"),
    CONFIG("qwen3next", "layer_types",
           "[\"linear_attention\", \"mamba\", \"full_attention\", \"full_attention\"]", UNSUPPORTED,
           "layer 1 is of the type 'mamba'"),
    CONFIG("qwen3next", "layer_types",
           "[\"full_attention\", \"linear_attention\", \"linear_attention\", \"full_attention\"]",
           KT_E_NOT_FOUND, "self_attn.q_proj"),
    CONFIG("qwen3next", "full_attention_interval", "0", FORMAT, "a full_attention_interval of 0"),
    CONFIG("qwen3next", "attn_output_gate", "false", FORMAT,
           "q_proj has 256 x 64 numbers instead of 128 x 64"),
    CONFIG("qwen3next", "shared_expert_intermediate_size", "0", UNSUPPORTED,
           "a tensor model.layers.0.mlp.shared_expert"),
    CONFIG("qwen3next", "mlp_only_layers", "[1]", FORMAT,
           "layer 1 has 8 experts, but is dense by the configuration"),
    CONFIG("qwen3next", "sliding_window", "128", UNSUPPORTED, "sliding_window is not computed"),
    /* What is of another kind, or no number of such a thing. */
    CONFIG("qwen3moe", "num_hidden_layers", "0", FORMAT, "0 layers, which must be 1 to"),
    CONFIG("qwen3moe", "num_attention_heads", "1.5", FORMAT, "num_attention_heads is not a whole number"),
    CONFIG("qwen3moe", "rms_norm_eps", "\"small\"", FORMAT, "rms_norm_eps is not a number"),
    CONFIG("qwen3moe", "rms_norm_eps", "2", FORMAT, "an epsilon of 2"),
    CONFIG("qwen3moe", "norm_topk_prob", "1", FORMAT, "norm_topk_prob is neither true nor false"),
    CONFIG("minimax-m2", "qk_norm_type", "1", FORMAT, "qk_norm_type is not text"),
    CONFIG("glm4moe", "layer_types",
           "[\"sliding_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]", FORMAT,
           "layer 0 is of the type 'sliding_attention', but there is no sliding_window"),
    CONFIG("deepseek-v3", "n_shared_experts", "65", FORMAT, "65 shared experts of "),
    KEY("deepseek-v3", "rope.dimension_count", "300", FORMAT, "300 of them rotated"),
    KEY("deepseek-v3", "expert_gating_func", "7", UNSUPPORTED, "expert_gating_func is 7; 1, softmax"),
    KEY("qwen3moe", "attention.value_length", "16", UNSUPPORTED, "keys and values of different sizes"),
    KEY("qwen3next", "ssm.inner_size", "130", FORMAT, "an ssm.inner_size of 130 over"),
    CONFIG("qwen35moe", "mlp_only_layers", "[1]", UNSUPPORTED, "mlp_only_layers is not computed"),
    CONFIG("minimax-m2", "partial_rotary_factor", "0.25", FORMAT, "partial_rotary_factor means 8"),
    /* Scales of what is not rounded here, as exporters spell them; and tensors that mean something. */
    MORE("qwen3moe",
         L0 "self_attn.q_scale " L0 "self_attn.k_scale " L0 "self_attn.v_scale " L0 "self_attn.kv_scale " L0
            "self_attn.attn.k_scale " L0 "self_attn.prob_output_scale " L0 "self_attn.qkv_proj.k_scale " L0
            "self_attn.k_proj.k_scale " L0 "self_attn.v_proj.output_scale " L0
            "self_attn.q_proj.input_scale " L0 "self_attn.k_zero_point " L0
            "self_attn.kv_cache_scaling_factor " L0 "mlp.experts.1.w1.input_scale",
         UNSUPPORTED, "mlp.experts.1.w1.input_scale"),
    MORE("qwen3moe",
         L0 "self_attn.q_scale " L0 "self_attn.k_scale " L0 "self_attn.v_scale " L0 "self_attn.kv_scale " L0
            "self_attn.attn.k_scale " L0 "self_attn.prob_output_scale " L0 "self_attn.qkv_proj.k_scale " L0
            "self_attn.k_proj.k_scale " L0 "self_attn.v_proj.output_scale " L0
            "self_attn.q_proj.input_scale " L0 "self_attn.k_zero_point " L0
            "self_attn.kv_cache_scaling_factor " L0 "mlp.experts.1.up_proj.input_scale " L0
            "mlp.gate.input_scale",
         KT_OK, ""),
    MORE("qwen3moe", L0 "self_attn.q_proj.pre_quant_scale", UNSUPPORTED,
         "q_proj.pre_quant_scale\" belongs to"),
    MORE("qwen3moe", L0 "self_attn.q_proj.lora_A.weight", UNSUPPORTED, "q_proj.lora_A.weight\" belongs to"),
    MORE("qwen3moe", L0 "self_attn.scale", UNSUPPORTED, "a tensor model.layers.0.self_attn.scale, which"),
    MORE("qwen3moe", L0 "input_layernorm.gamma", UNSUPPORTED, "input_layernorm.gamma\" belongs to"),
    MORE("qwen3moe", L0 "mlp.experts.1.up_proj.smooth_scale", UNSUPPORTED, "up_proj.smooth_scale"),
    MORE("qwen3moe", L0 "mlp.experts.1.norm.weight", UNSUPPORTED, "experts.1.norm.weight\" belongs to an"),
    MORE("qwen3moe", L0 "mlp.experts.e_score_correction_bias", FORMAT, "experts.e_score_correction_bias"),
    MORE("qwen3moe",
         "token_embd.input_scale output.input_scale blk.0.attn_q.input_scale blk.0.ffn_up_exps.input_scale "
         "blk.0.attn_q.scale blk.1.ffn_gate_inp.scale blk.1.attn_norm.scale token_embd.scale output.scale",
         KT_OK, ""),
    MORE("qwen3moe", "blk.0.attn_q.weight.scale", UNSUPPORTED, "attn_q.weight.scale\" belongs to"),
    MORE("qwen3moe", "blk.0.ffn_up_exps.weight.scale", UNSUPPORTED, "weight.scale\" belongs to experts"),
    MORE("qwen3moe", "blk.0.ffn_norm_exps.weight", UNSUPPORTED, "a tensor blk.0.ffn_norm_exps.weight, which"),
    /* Ropes. */
    CONFIG("llama3", "rope_scaling.low_freq_factor", "0", FORMAT, "needs a low_freq_factor above 0"),
    CONFIG("qwen3", "rope_scaling", "{\"full_attention\": {\"rope_theta\": 100}}", UNSUPPORTED,
           "rope_scaling has another rope for the layers 'full_attention'"),
    CONFIG("deepseek-v3", "rope_scaling.llama_4_scaling_beta", "0.1", UNSUPPORTED, "llama_4_scaling_beta"),
    CONFIG("deepseek-v3", "llama_4_scaling", "{\"beta\": 0.1}", UNSUPPORTED, "llama_4_scaling"),
    CONFIG("phi3", "rope_scaling",
           "{\"rope_type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]}", FORMAT,
           "the short_factor of rope has 1 numbers instead of 4"),
    CONFIG("phi3", "rope_scaling",
           "{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 0, 1], \"long_factor\": [1, 1, 1, 1]}",
           FORMAT, "number 2 of the short_factor of rope is not above 0"),
    CONFIG("phi3", "rope_scaling",
           "{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 1, 1, 1], "
           "\"attention_factor\": -1}",
           FORMAT, "cosines and sines of rope are multiplied by -1"),
    /* Factors and patterns. */
    CONFIG("granite", "logits_scaling", "0", FORMAT, "logits_scaling is 0"),
    CONFIG("granite", "residual_multiplier", "0", FORMAT, "residual_multiplier is 0"),
    CONFIG("gemma3", "query_pre_attn_scalar", "0", FORMAT, "query_pre_attn_scalar is 0, which must be above"),
    CONFIG("gemma4", "final_logit_softcapping", "-1", FORMAT, "final_logit_softcapping is -1"),
    CONFIG("gemma4", "use_bidirectional_attention", "\"all\"", UNSUPPORTED,
           "use_bidirectional_attention 'all' is not computed"),
    CONFIG("gemma4-e2b", "hidden_size_per_layer_input", "24", FORMAT, "layers of 24 numbers need 120"),
    CONFIG("cohere2_moe", "sliding_window_pattern", "0", FORMAT, "a pattern of sliding layers is 0"),
    CONFIG("cohere2_moe", "shared_expert_combination_strategy", "\"max\"", UNSUPPORTED,
           "the shared_expert_combination_strategy 'max' is not computed"),
    CONFIG("hunyuan-moe", "moe_topk", "[3, 2, 3]", UNSUPPORTED, "moe_topk differs from layer to layer"),
    CONFIG("llama4", "attention_chunk_size", "100", UNSUPPORTED, "100; multiples of 64 are computed"),
    CONFIG("llama4", "layer_types", "[\"full_attention\"]", FORMAT, "layer_types names 1 layers of 4"),
    CONFIG("llama4", "layer_types",
           "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\"]", UNSUPPORTED,
           "layer 1 is of the type 'sliding_attention'"),
    CONFIG("gemma3", "attn_logit_softcapping", "30", UNSUPPORTED, "attn_logit_softcapping is not computed"),
    CONFIG("solar-open", "partial_rotary_factor", "0.5", UNSUPPORTED, "partial_rotary_factor is not"),
    CONFIG("llama4", "floor_scale", "0", FORMAT, "floor_scale is 0, which must be above 0"),
    CONFIG("longcat_flash", "mla_scale_q_lora", "false", UNSUPPORTED, "latents that are not scaled"),
    CONFIG("longcat_flash", "mla_scale_kv_lora", "false", UNSUPPORTED, "latents that are not scaled"),
    CONFIG("longcat_flash", "head_dim", "16", UNSUPPORTED, "qk_head_dim and head_dim are not those"),
    CONFIG("longcat_flash", "q_lora_rank", "null", FORMAT, "q_lora_rank is missing"),
    CONFIG("longcat_flash", "zero_expert_type", "\"copy\"", UNSUPPORTED, "zero_expert_type 'copy'"),
    CONFIG("longcat_flash", "zero_expert_num", "4097", FORMAT, "zero_expert_num is 4097"),
    CONFIG("longcat_flash", "zero_expert_num", "3", FORMAT, "numbers instead of 11 x 64"),
    CONFIG("longcat_flash", "router_bias", "true", UNSUPPORTED, "router_bias is not computed"),
    CONFIG("longcat_flash", "num_hidden_layers", "2", FORMAT, "num_hidden_layers is not 2 times num_layers"),
    CONFIG("longcat_flash", "num_hidden_layers", "4", KT_OK, ""),
    MORE("longcat_flash", "model.mtp.layers.0.enorm.weight", KT_OK, ""),
    CONFIG("beam", "rope_theta", "5000.0", UNSUPPORTED, "a rope_theta outside rope_parameters"),
    CONFIG("beam", "rope_parameters", "{\"sliding_attention\": {\"rope_theta\": 10000.0}}", FORMAT,
           "rope_parameters has no 'full_attention'"),
    CONFIG("dbrx", "rope_theta", "10000.0", FORMAT, "attn_config says rope_theta is 50000"),
    CONFIG("dbrx", "rope_theta", "null", KT_OK, ""),
    CONFIG("dbrx", "attn_config.clip_qkv", "-1", FORMAT, "values are clipped to -1"),
    CONFIG("dbrx", "ffn_config.moe_normalize_expert_weights", "2.0", UNSUPPORTED,
           "moe_normalize_expert_weights is 2"),
    CONFIG("dbrx", "ffn_config.ffn_act_fn.name", "\"gelu\"", UNSUPPORTED, "the ffn_act_fn 'gelu'"),
    CONFIG("dbrx", "ffn_config.moe_top_k", "\"3\"", FORMAT, "moe_top_k"),
    CONFIG("aria", "moe_num_shared_experts", "65", FORMAT, "65 shared experts"),
    LACK("phimoe", "output.bias", FORMAT, "has no bias, which phimoe models have"),
    /* Windows of classes that have none. */
    CONFIG("llama3", "sliding_window", "64", UNSUPPORTED, "sliding_window is not computed"),
    CONFIG("qwen2", "architectures", "[\"LlamaForCausalLM\"]", FORMAT,
           "unexpected tensor model.layers.0.self_attn.q_proj"),
    /* Experts that are weighted as the class never does. */
    CONFIG("minimax-m2", "norm_topk_prob", "false", UNSUPPORTED, "norm_topk_prob is not computed"),
    CONFIG("minimax-m2", "routed_scaling_factor", "2.5", UNSUPPORTED,
           "routed_scaling_factor is not computed"),
    CONFIG("minimax-m2", "n_group", "2", UNSUPPORTED, "n_group is not computed"),
    CONFIG("mixtral", "norm_topk_prob", "false", UNSUPPORTED, "norm_topk_prob is not computed"),
    CONFIG("llama3", "norm_topk_prob", "false", KT_OK, ""),
    CONFIG("deepseek-v2", "rope_interleave", "false", UNSUPPORTED, "rope_interleave is not computed"),
    CONFIG("qwen3", "quantization_config", "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}",
           UNSUPPORTED, "weights that bitsandbytes quantized are not computed"),
    /* Biases that the class drops. */
    ADD("llama3", "model.layers.0.self_attn.q_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.0.self_attn.q_proj"),
    ADD("mixtral", "model.layers.1.self_attn.v_proj.bias", "32", FORMAT,
        "unexpected tensor model.layers.1.self_attn.v_"),
    ADD("qwen2", "model.layers.1.self_attn.o_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.1.self_attn.o_proj"),
    ADD("qwen3", "model.layers.1.self_attn.o_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.1.self_attn.o_proj"),
    ADD("qwen3moe", "model.layers.1.self_attn.k_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.1.self_attn.k_"),
    ADD("qwen35", "model.layers.3.self_attn.o_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.3.self_attn.o_"),
    ADD("minimax-m2", "model.layers.0.self_attn.o_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.0.self_attn."),
    ADD("qwen2", "model.layers.0.mlp.up_proj.bias", "192", FORMAT,
        "unexpected tensor model.layers.0.mlp.up_proj.bias"),
    ADD("llama3", "model.layers.3.mlp.down_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.3.mlp.down_proj"),
    ADD("qwen3moe", "model.layers.1.mlp.experts.*.up_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.1.mlp.experts.0.up_proj.bias"),
    ADD("llama3", "lm_head.bias", "256", FORMAT, "unexpected tensor lm_head.bias"),
    ADD("qwen3moe", "model.layers.1.mlp.gate.bias", "8", FORMAT,
        "unexpected tensor model.layers.1.mlp.gate.bias"),
    ADD("qwen3moe", "model.layers.1.mlp.experts.0.up_proj.bias", "64", FORMAT, "mlp.experts.0.up_proj.bias"),
    ADD("glm4moe", "model.layers.1.mlp.shared_experts.up_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.1.mlp"),
    ADD("qwen35", "model.layers.0.linear_attn.out_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.0.linear_"),
    ADD("deepseek-v3", "model.layers.1.self_attn.kv_a_proj_with_mqa.bias", "72", FORMAT,
        "unexpected tensor model.layers.1"),
    ADD("deepseek-v2", "model.layers.2.self_attn.o_proj.bias", "64", FORMAT,
        "unexpected tensor model.layers.2.self_attn.o"),
};
#define N_CHANGES (int)(sizeof(changes) / sizeof(changes[0]))

/* ---- changing ---- */

static void set_config(struct family *family, const struct change *change)
{
    char path[80], *key = path;
    json_t *object = family->config;
    (void)snprintf(path, sizeof(path), "%s", change->key);
    for (char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        *dot = '\0';
        object = json_object_get(object, key);
    }
    json_t *value = json_loads(change->value, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(json_object_set_new(object, key, value), 0);
}

/* Key lines are `key TYPE NAME VALUE`. */
static void set_key(struct family *family, const struct change *change)
{
    static char value[40];
    int n = 0;
    (void)snprintf(value, sizeof(value), "%s", change->value);
    for (int i = 0; i < family->n_lines; i++) {
        struct line *line = &family->lines[i];
        if (strcmp(line->word[0], "key") != 0 || strcmp(line->word[2], change->gguf_key) != 0)
            continue;
        line->word[3] = value;
        n++;
    }
    ck_assert_msg(n == 1, "%d keys %s", n, change->gguf_key);
}

/* Behind it all move up; whoever points to a source points elsewhere then, which only GGUF files use. */
static void leave_out(struct family *family, const char *name)
{
    int n = family->n_sources + family->n_targets;
    for (int i = 0; i < family->n_sources; i++)
        if (strcmp(family->sources[i].name, name) == 0)
            memmove(&family->sources[i], &family->sources[i + 1],
                    (size_t)(--family->n_sources - i) * sizeof(*family->sources));
    for (int i = 0; i < family->n_targets; i++)
        if (strcmp(family->targets[i].name, name) == 0) {
            free(family->targets[i].parts);
            memmove(&family->targets[i], &family->targets[i + 1],
                    (size_t)(--family->n_targets - i) * sizeof(*family->targets));
        }
    ck_assert_msg(family->n_sources + family->n_targets == n - 1, "there is no tensor %s", name);
}

/* Tensors of one number, which are the first source's first one. Sources move, to which others point. */
static void put_in(struct family *family, const char *names, bool is_gguf)
{
    char text[1000], *rest = text;
    static struct source one;
    (void)snprintf(text, sizeof(text), "%s", names);
    one = family->sources[0];
    for (const char *name; (name = strtok_r(rest, " ", &rest));) {
        if (is_gguf) {
            struct target target = {.count = 1, .n_dims = 1, .dims = {1}, .n_parts = 1, .is_wide = true};
            target.parts = calloc(1, sizeof(*target.parts));
            *target.parts = (struct part){.source = &one, .n_axes = 1, .count = {1}, .stride = {1}};
            (void)snprintf(target.name, sizeof(target.name), "%s", name);
            family->targets = realloc(family->targets, (size_t)(family->n_targets + 1) * sizeof(target));
            family->targets[family->n_targets++] = target;
        } else {
            struct source source = {.count = 1, .n_dims = 1, .dims = {1}, .mean = 1, .is_wide = true};
            (void)snprintf(source.name, sizeof(source.name), "%s", name);
            family->sources = realloc(family->sources, (size_t)(family->n_sources + 1) * sizeof(source));
            family->sources[family->n_sources++] = source;
        }
    }
}

/* Targets of GGUF point to sources that move here, so this is for safetensors. */
static void add(struct family *family, const char *name, const char *size, double deviation)
{
    struct source *sources = realloc(family->sources, ((size_t)family->n_sources + 1) * sizeof(*sources));
    ck_assert_ptr_nonnull(sources);
    family->sources = sources;
    struct source *source = &sources[family->n_sources++];
    char *end;
    *source = (struct source){.n_dims = 1, .deviation = deviation};
    source->dims[0] = source->count = strtoull(size, &end, 10);
    if (*end == 'x') {
        source->n_dims = 2;
        source->dims[1] = strtoull(end + 1, NULL, 10);
        source->count *= source->dims[1];
    }
    (void)snprintf(source->name, sizeof(source->name), "%s", name);
}

/* With a * in its name: for each of 8 experts. */
static void add_each(struct family *family, const char *name, const char *size)
{
    const char *star = strchr(name, '*');
    char one[160];
    for (int i = 0; i < (star ? 8 : 1); i++) {
        if (star)
            (void)snprintf(one, sizeof(one), "%.*s%d%s", (int)(star - name), name, i, star + 1);
        add(family, star ? one : name, size, 0.5);
    }
}

/* ---- opening ---- */

static enum kt_status open_model(const struct family *family, bool is_gguf, struct kt_context *context,
                                 struct kt_error *error)
{
    const char *path = opened_file(family, is_gguf);
    struct kt_checkpoint *checkpoint;
    struct kt_model *model = NULL;
    enum kt_status status = kt_checkpoint_open(path, NULL, &checkpoint, error);
    if (status != KT_OK)
        return status;
    status = kt_model_open(context, checkpoint, NULL, &model, error);
    kt_model_close(model);
    kt_checkpoint_close(checkpoint);
    return status;
}

START_TEST(is_refused_by_name)
{
    const struct change *change = &changes[_i];
    struct kt_context *context = opened_context(1, "core.spin_us=0");
    struct kt_error error = {KT_OK, ""};
    struct family family;
    char folder[4096];
    if (!context)
        return;
    (void)snprintf(folder, sizeof(folder), "%s/tests/data/families", getenv("KT_TEST_SOURCE"));
    family_open(&family, folder, change->family);
    const char *tensor = change->more ? change->more : change->tensor;
    bool is_gguf = change->gguf_key || (tensor && !change->value && strncmp(tensor, "model.", 6) != 0);
    if (change->more)
        put_in(&family, change->more, is_gguf);
    else if (change->key)
        set_config(&family, change);
    else if (change->gguf_key)
        set_key(&family, change);
    else if (change->value)
        add_each(&family, change->tensor, change->value);
    else
        leave_out(&family, change->tensor);
    enum kt_status status = open_model(&family, is_gguf, context, &error);
    ck_assert_msg(status == change->status && strstr(error.message, change->words),
                  "%s, change %d (%s): status %d: %s", change->family, _i, change->words, (int)status,
                  error.message);
    family_close(&family);
    kt_context_destroy(context);
}
END_TEST

/* As some programs that quantize write them beside every matrix. */
START_TEST(biases_of_zeros_are_none)
{
    struct kt_context *context = opened_context(1, "core.spin_us=0");
    struct kt_error error = {KT_OK, ""};
    struct family family;
    if (!context)
        return;
    opened_tables(&family, "llama3");
    add(&family, "model.layers.0.self_attn.q_proj.bias", "64", 0);
    add(&family, "model.layers.0.mlp.up_proj.bias", "192", 0);
    ck_assert_msg(open_model(&family, false, context, &error) == KT_OK, "%s", error.message);
    add(&family, "model.layers.1.mlp.up_proj.bias", "192", 0.5);
    ck_assert_int_eq(open_model(&family, false, context, &error), KT_E_FORMAT);
    ck_assert_int_eq(json_object_set_new(family.config, "mlp_bias", json_true()), 0);
    ck_assert_msg(open_model(&family, false, context, &error) == KT_OK, "%s", error.message);
    family_close(&family);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("refusals");
    TCase *tests = tcase_create("refusals");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, is_refused_by_name, 0, N_CHANGES);
    tcase_add_test(tests, biases_of_zeros_are_none);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
