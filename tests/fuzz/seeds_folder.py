#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small right folders as seeds for fuzz_folder: seeds_folder.py FOLDER. With --files only their files of
tensors, for fuzz_safetensors."""
import json
import struct
import sys

SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "I32": 4, "I64": 8}


# What is looked at: zeros that are all 7, columns of group 0, a shape.
ZEROS = {"qzeros": [0x77] * 4, "g_idx": [0] * 32, "weight_shape": [8, 0, 0, 0, 0, 0, 0, 0] * 2}


def pack(config, index, tensors, lone):
    header, data = {}, b""
    for name, dtype, shape in tensors:
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(ZEROS.get(name.split(".")[-1]) or [i * 7 % 61 for i in range(size)])
    header["__metadata__"] = {"format": "pt"}
    if lone:
        text = json.dumps(header).encode()
        return struct.pack("<H", len(text)) + text + data
    texts = [json.dumps(config).encode(), b"", json.dumps(header).encode()]
    if index:
        names = {name: "a.safetensors" for name, _, _ in tensors}
        texts[1] = json.dumps({"weight_map": {**names, "b": "b.safetensors"}}).encode()
    return struct.pack("<3H", *map(len, texts)) + b"".join(texts) + data


def own(prefix, names, dtype, scale=None):
    tensors = []
    for expert in (0, 1):
        for name in names:
            base = f"{prefix}{expert}.{name}."
            tensors.append((base + "weight", dtype, [4, 4]))
            if scale:
                tensors.append((base + scale[0], scale[1], scale[2]))
    return tensors


def int4(prefix, names, parts):
    return [(f"{prefix}{expert}.{name}.{part}", dtype, shape)
            for expert in (0, 1) for name in names for part, dtype, shape in parts]


W, P = ["w1", "w3", "w2"], ["gate_proj", "up_proj", "down_proj"]
CONFIG = {"model_type": "a", "num_experts": 2, "num_experts_per_tok": 1, "hidden_size": 4,
          "moe_intermediate_size": 4, "num_hidden_layers": 3, "hidden_act": "silu"}
FUSED = "model.layers.0.mlp.experts."
SEEDS = {
    "own": (CONFIG, True, own("model.layers.0.mlp.experts.", P, "BF16", ("bias", "F32", [4]))),
    "lone": ({}, False, own("layers.2.experts.", W, "BF16")),
    "block": ({**CONFIG, "quantization_config": {"quant_method": "fp8", "weight_block_size": [3, 2]}},
              False, own("layers.1.ffn.experts.", W, "F8_E4M3", ("weight_scale_inv", "F32", [2, 2]))),
    "rows": ({"text_config": CONFIG, "swiglu_limit": 7.5}, True,
             own("model.language_model.layers.1.block_sparse_moe.experts.", W, "F8_E4M3",
                 ("weight_scale", "BF16", [4, 1]))),
    "mx": (CONFIG, True, own("layers.0.block_sparse_moe.experts.", W, "F8_E4M3",
                             ("weight_scale_inv", "U8", [4, 1]))),
    "fused": ({**CONFIG, "model_type": "gpt_oss"}, True,
              [(FUSED + "gate_up_proj", "BF16", [2, 8, 4]), (FUSED + "down_proj", "BF16", [2, 4, 4]),
               (FUSED + "gate_up_proj_bias", "BF16", [2, 8])]),
    "packed": ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 8}}}}}, False,
        int4("model.layers.0.mlp.experts.", P,
             [("weight_packed", "I32", [8, 1]), ("weight_scale", "BF16", [8, 1]),
              ("weight_shape", "I64", [2])])),
    "gptq": ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 8,
                                      "sym": True, "desc_act": False}}, False,
             int4("model.layers.0.mlp.experts.", P,
                  [("qweight", "I32", [1, 8]), ("scales", "F16", [1, 8]), ("qzeros", "I32", [1, 1]),
                   ("g_idx", "I32", [8])])),
    "awq": ({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemm"}}, False,
            int4("model.layers.0.mlp.experts.", P,
                 [("qweight", "I32", [8, 1]), ("scales", "F16", [1, 8]), ("qzeros", "I32", [1, 1])])),
    "mx4": ({}, False, int4("layers.0.ffn.experts.", W,
                            [("weight", "I8", [32, 16]), ("scale", "F8_E8M0", [32, 1])])),
    "blocks": ({"model_type": "gpt_oss"}, False,
               [(FUSED + "gate_up_proj_blocks", "U8", [2, 64, 1, 16]),
                (FUSED + "gate_up_proj_scales", "U8", [2, 64, 1]),
                (FUSED + "gate_up_proj_bias", "BF16", [2, 64]),
                (FUSED + "down_proj_blocks", "U8", [2, 32, 1, 16]),
                (FUSED + "down_proj_scales", "U8", [2, 32, 1])]),
    "stacked": ({**CONFIG, "swiglu_limits": [0, 7.0, None]}, False,
                [(f"model.layers.1.moe.{name}.{part}", dtype, shape) for name in P for part, dtype, shape in
                 (("weight", "F8_E4M3", [2, 4, 4]), ("weight_scale_inv", "F32", [2, 1, 1]))]),
    "turned": (CONFIG, False,
               [(FUSED + "gate_up_proj", "BF16", [2, 4, 8]), (FUSED + "down_proj", "BF16", [2, 4, 4])]),
}
for name, seed in SEEDS.items():
    with open(f"{sys.argv[1]}/seed-{name}", "wb") as file:
        file.write(pack(*seed, "--files" in sys.argv))
