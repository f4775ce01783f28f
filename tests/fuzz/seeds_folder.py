#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small right folders as seeds for fuzz_folder: seeds_folder.py FOLDER"""
import json
import struct
import sys

SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}


def pack(config, index, tensors):
    header, data = {}, b""
    for name, dtype, shape in tensors:
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(i * 7 % 61 for i in range(size))
    header["__metadata__"] = {"format": "pt"}
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
    "turned": (CONFIG, False,
               [(FUSED + "gate_up_proj", "BF16", [2, 4, 8]), (FUSED + "down_proj", "BF16", [2, 4, 4])]),
}
for name, seed in SEEDS.items():
    with open(f"{sys.argv[1]}/seed-{name}", "wb") as file:
        file.write(pack(*seed))
