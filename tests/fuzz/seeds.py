#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small right GGUF files, without their magic, as seeds: seeds.py FOLDER"""
import struct
import sys


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def number(key, value):
    return text(key) + struct.pack("<II", 4, value)


def model(fused, bias, side):
    tensors = []  # name, dimensions, type, bytes
    shapes = {"gate_up": (side, 2 * side, 2)} if fused else {"gate": (side, side, 2), "up": (side, side, 2)}
    shapes["down"] = (side, side, 2)
    for layer in (0, 3):
        for kind, dims in shapes.items():
            count = dims[0] * dims[1] * dims[2]
            weights = (8, count // 32 * 34) if side % 32 == 0 else (1, count * 2)
            tensors.append((f"blk.{layer}.ffn_{kind}_exps.weight", dims, *weights))
            if bias:
                tensors.append((f"blk.{layer}.ffn_{kind}_exps.bias", dims[1:], 1, dims[1] * 4))
                tensors.append((f"blk.{layer}.ffn_{kind}_exps.scale", (2,), 0, 8))
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("gpt-oss"),
            number("general.alignment", 32), number("gpt-oss.block_count", 4),
            number("gpt-oss.expert_count", 2), number("gpt-oss.expert_used_count", 1),
            text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
            text("types") + struct.pack("<IIQII", 9, 5, 2, 1, 2)]
    head, body = struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys), b""
    for name, dims, kind, size in tensors:
        head += text(name) + struct.pack("<I", len(dims))
        head += b"".join(struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", kind, len(body))
        body += bytes(i * 7 % 61 for i in range(size)) + bytes(-size % 32)
    return head + bytes(-(len(head) + 4) % 32) + body


for fused in (0, 1):
    for bias in (0, 1):
        for side in (2, 32):  # small enough for many runs a second; blocks
            with open(f"{sys.argv[1]}/seed-model-{fused}{bias}-{side}", "wb") as file:
                file.write(model(fused, bias, side))
