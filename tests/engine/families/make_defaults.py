#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_defaults.py [--check] - what transformers' configuration classes make of settings that a config.json lacks.

Writes tests/data/families/defaults, or compares it with --check. For each class that the engine computes it takes
the tiny model's config.json, leaves out one key at a time and asks the class. Lines of the file:

    class FAMILY CLASS          a folder of tests/data/families; what follows is of its config.json
    with KEY VALUE              another setting, for the lines that follow up to the next class
    default KEY VALUE [OTHER]   what a key that is missing says, in JSON, and a value that says something else, where
                                one does so alone
    required KEY                the class has a default that the engine does not take: it must refuse the file

With --check it also says which keys of GGUF files the package gguf has that tests/data/families/gguf_keys has not.
Keys that change no sum and those that only tensors can say are left out by name: HARMLESS, TENSORS.
"""
import json
import pathlib
import sys

import gguf
import transformers

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "families"
# A family of each class, and settings without which some defaults say nothing.
FAMILIES = [("llama3", {}), ("mistral", {}), ("mixtral", {}), ("qwen2", {}), ("qwen2", {"use_sliding_window": True}),
            ("qwen3", {}), ("qwen3", {"use_sliding_window": True, "max_window_layers": 1}), ("qwen3moe", {}),
            ("qwen3moe", {"use_sliding_window": True}), ("gpt-oss", {}), ("glm4moe", {}), ("glm4moe", {"n_group": 4}),
            ("minimax-m2", {}), ("deepseek-v3", {}), ("deepseek-v2", {}), ("glm-4.7-flash", {}), ("qwen3next", {}),
            ("qwen35moe", {}), ("qwen35", {}), ("qwen2moe", {}),
            ("qwen2moe", {"use_sliding_window": True, "num_hidden_layers": 4}), ("dots1", {}),
            ("dots1", {"sliding_window": 32}),
            ("ernie4_5", {}), ("ernie4_5-moe", {}), ("hunyuan-moe", {}), ("hunyuan-dense", {}), ("hy_v3", {}),
            ("exaone-moe", {}), ("smollm3", {}), ("olmoe", {}), ("solar-open", {}), ("seed-oss", {}),
            ("sarvam-moe", {}),
            ("laguna", {}), ("mimo2", {}), ("mellum", {}), ("ministral3", {}), ("mistral4", {}), ("sarvam-mla", {}),
            ("exaone4", {"num_hidden_layers": 4}),
            ("olmo3", {}), ("glm4", {}), ("phi3", {}), ("axk1", {}), ("deepseek-v32", {}), ("glm-dsa", {}),
            ("granite", {}), ("granitemoe", {}), ("olmo2", {}), ("flex_olmo", {}), ("phimoe", {}), ("gemma3", {}),
            ("gemma4", {}), ("afmoe", {}), ("flint", {}), ("kolibri1", {}), ("cohere2_moe", {}), ("llama4", {}),
            ("longcat_flash", {}), ("beam", {"num_attention_heads": 8}), ("dbrx", {}), ("aria", {}),
            ("step3p5-plain", {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
            ("granitemoe-swa", {}), ("granite-swa", {"layer_rope_theta": None}),
            ("minimax-m3", {}), ("internlm3", {"bias": False, "qkv_bias": False})]
# Training, generation, names; what is read as lists, by other tests.
HARMLESS = {"initializer_range", "attention_dropout", "use_cache", "output_router_logits", "router_aux_loss_coef",
            "router_jitter_noise", "pretraining_tp", "transformers_version", "model_type", "architectures", "dtype",
            "pad_token_id", "bos_token_id", "eos_token_id", "layer_types", "mlp_layer_types", "rope_parameters",
            "indexer_types", "sep_token_id", "cls_token_id", "unk_token_id", "decoder_start_token_id", "eod_token_id",
            "residual_dropout",
            "enable_moe_fp32_combine", "embd_pdrop", "resid_pdrop", "mtp_layer_types", "mtp_mlp_layer_types",
            "input_jitter_noise"}
# Of these the engine takes what tensors have; what config.json says besides must be the same.
TENSORS = {"vocab_size", "intermediate_size", "moe_intermediate_size", "q_lora_rank",
           "vocab_size_per_layer_input"}
REQUIRED = {"d_model", "n_heads", "n_layers", "num_layers", "hidden_size", "num_hidden_layers",
            "num_attention_heads", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim",
            "linear_num_key_heads", "linear_num_value_heads"}
# What one class requires: it has no default, or the engine does not trust one.
REQUIRED_OF = {"GptOssForCausalLM": {"sliding_window"}, "DeepseekV2ForCausalLM": {"num_experts_per_tok"},
               "DeepseekV3ForCausalLM": {"routed_scaling_factor", "n_group", "topk_group"},
               "Glm4MoeLiteForCausalLM": {"routed_scaling_factor", "n_group", "topk_group"},
               "AXK1ForCausalLM": {"routed_scaling_factor", "n_group", "topk_group"},
               "DeepseekV32ForCausalLM": {"routed_scaling_factor", "n_group", "topk_group"},
               "GlmMoeDsaForCausalLM": {"routed_scaling_factor", "n_group", "topk_group"},
               "Ministral3ForCausalLM": {"rope_scaling"}, "Mistral4ForCausalLM": {"rope_scaling"}}
# What it does not: published models leave it out.
LEFT_OUT_OF = {"Gemma3ForCausalLM": {"num_attention_heads"}}
# What a class has and does not use, or what follows from another key.
UNUSED_OF = {name: {"head_dim", "num_key_value_heads"}
             for name in ("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM", "Glm4MoeLiteForCausalLM",
                          "Mistral4ForCausalLM", "SarvamMLAForCausalLM", "AXK1ForCausalLM", "LongcatFlashForCausalLM",
                          "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")}
UNUSED_OF["DeepseekV32ForCausalLM"] |= {"mlp_bias"}
UNUSED_OF["GlmMoeDsaForCausalLM"] |= {"mlp_bias"}
UNUSED_OF["Mistral4ForCausalLM"] |= {"partial_rotary_factor"}
UNUSED_OF["MiniMaxM3VLForCausalLM"] = {"rotary_dim", "index_n_heads", "index_head_dim", "index_block_size",
                                       "index_topk_blocks", "index_local_blocks"}  # as no layer chooses blocks
UNUSED_OF["Step3p5ForCausalLM"] = {"swiglu_limits"}  # of experts, which the library reads
UNUSED_OF["Phi3ForCausalLM"] = {"original_max_position_embeddings"}
UNUSED_OF["LongcatFlashForCausalLM"] |= {"qk_head_dim", "ffn_hidden_size", "expert_ffn_hidden_size"}  # tensors say it
UNUSED_OF["BeamForCausalLM"] = {"rope_scaling"}  # which has a rope for each type of layers
# attn_config says the base, where transformers does not look for it. Ties are refused there.
UNUSED_OF["DbrxForCausalLM"] = {"rope_theta", "head_dim", "attn_config", "ffn_config", "emb_pdrop",
                                "tie_word_embeddings"}
# Nothing without use_sliding_window, of classes that have it.
SLIDING = {"max_window_layers", "sliding_window"}
# Keys within objects.
NESTED = {"DbrxForCausalLM": ["attn_config/clip_qkv", "attn_config/kv_n_heads", "ffn_config/ffn_act_fn",
                              "ffn_config/moe_normalize_expert_weights", "ffn_config/moe_num_experts",
                              "ffn_config/moe_top_k"]}
# Keys of config.json that are not fields of a class: where its own name of the thing is another, or it is read by
# code. ROPE stand within rope_parameters.
ALIASES = {"num_local_experts": ("num_experts", "n_routed_experts"), "num_mtp_layers": ("num_nextn_predict_layers",),
           "num_experts": ("num_local_experts",), "n_routed_experts": ("num_experts",),
           "n_shared_experts": ("num_shared_experts",), "attention_bias": ("qkv_bias",), "mlp_bias": ("bias",),
           "share_expert_dim": ("share_expert_dims",)}
ROPE = {"rope_scaling": None, "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
OTHERS = {"ffn_config/ffn_act_fn": {"name": "gelu"}, "hidden_act": "gelu", "hidden_activation": "gelu",
          "sliding_window_pattern": 2,
          "topk_method": "noaux_tc", "swiglu_limits_shared": [0.5, 0.25, 1.0], "sliding_window": 40, "topk_group": 2,
          "num_nextn_predict_layers": 2, "max_window_layers": 1, "moe_layer_end_index": 1,
          "moe_norm_min": 1.0, "attention_chunk_size": 4096, "moe_router_logit_softcapping": 5.0,
          "rope_scaling": {"rope_type": "linear", "factor": 3}}


def open_class(config):
    given = {k: v for k, v in config.items() if k not in ("architectures", "model_type")}
    opened = type(transformers.AutoConfig.for_model(config["model_type"]))(**given)
    opened.allow_global_per_layer_attribute_access = True  # to what layers may differ in
    return opened


def fields_of(config):
    """Keys by the names that config.json has."""
    generic = set(transformers.PreTrainedConfig.__dataclass_fields__)
    names = set(type(open_class(config)).__dataclass_fields__) - generic | {"tie_word_embeddings", "head_dim"}
    out = {next((a for a in ALIASES.get(n, ()) if a in config), n) for n in names - HARMLESS - TENSORS}
    return sorted(n for n in out if not n.startswith("_")) + NESTED.get(config["architectures"][0], [])


def default_of(config, key):
    less = {k: v for k, v in config.items() if k != key}
    if "/" in key:
        outer, inner = key.split("/")
        less[outer] = {k: v for k, v in config[outer].items() if k != inner}
        return getattr(getattr(open_class(less), outer), inner)
    if key == "rope_scaling":
        return open_class(less | {"rope_parameters": None}).rope_parameters
    if key in ROPE:
        for outer in ("rope_scaling", "rope_parameters"):
            if isinstance(less.get(outer), dict):
                less[outer] = {k: v for k, v in less[outer].items() if k != key}
        ropes = open_class(less).rope_parameters or {}
        return ropes.get("full_attention", ropes).get(key, ROPE[key])
    value = getattr(open_class(less), key, None)
    if key == "head_dim" and value is None:
        return config["hidden_size"] // config["num_attention_heads"]
    return value


def other_than(key, value):
    if key in OTHERS:
        return OTHERS[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2
    return value + 1 if isinstance(value, int) else 1


def says_nothing(config, key):
    """In this configuration, or not by that key."""
    return (key in SLIDING and not config.get("use_sliding_window", True) or
            key == "max_window_layers" and not config["sliding_window"] or
            key == "sliding_window" and "sliding_window_size" in config or
            key in ("rope_theta", "partial_rotary_factor") and "full_attention" in open_class(config).rope_parameters)


def lines_of(family, settings):
    config = json.loads((DATA / family / "config.json").read_text()) | settings
    name = config["architectures"][0]
    required = (REQUIRED | REQUIRED_OF.get(name, set())) - LEFT_OUT_OF.get(name, set())
    yield f"class {family} {name}"
    for key, value in settings.items():
        yield f"with {key} {json.dumps(value, separators=(',', ':'))}"
    for key in dict.fromkeys(list(ROPE) + fields_of(config)):
        if key in UNUSED_OF.get(name, ()) or key in settings or says_nothing(config, key):
            continue
        if key in required:
            yield f"required {key}"
        else:
            value = default_of(config, key)
            alone = key == "use_sliding_window" or (key == "sliding_window" and config.get("max_window_layers") == 4)
            words = [json.dumps(v, separators=(",", ":")) for v in (value, other_than(key, value))]
            yield f"default {key} {words[0]}" + ("" if alone else " " + words[1])


def gguf_keys(names):
    """What a converter may write behind the architecture."""
    for value in vars(names).values():
        if isinstance(value, type):
            yield from gguf_keys(value)
        elif isinstance(value, str) and value.startswith("{arch}.") and "{" not in value[7:]:
            yield value[7:]


def main():
    text = "# By make_defaults.py, of transformers " + transformers.__version__ + ".\n"
    text += "".join(line + "\n" for family in FAMILIES for line in lines_of(*family))
    path = DATA / "defaults"
    if "--check" in sys.argv[1:]:
        known = {line.split()[0] for line in (DATA / "gguf_keys").read_text().splitlines()}
        new = sorted(set(gguf_keys(gguf.Keys)) - known)
        sys.exit("\n".join([f"{path} is not what transformers says"] * (text != path.read_text()) +
                           [f"gguf_keys lacks {key}" for key in new]) or 0)
    path.write_text(text)


main()
