#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model of random weights in the shape of Qwen3-30B-A3B, as a GGUF file, to measure whole models by.

    make_model.py [--type q4_k_m|bf16] [--layers 8] [--hollow] FILE.gguf

Numbers are drawn so that activations neither vanish nor grow. Weights of K-quants are random codes below fixed
scales, which is as good as quantized random numbers where only the time counts. There is no tokenizer. With
--hollow the weights are a hole in the file, which takes no room: for verbs that read none.
"""

import argparse
import struct
import sys

import numpy as np

HIDDEN, HEADS, KV_HEADS, HEAD, EXPERTS, TOP_K, WIDTH, VOCABULARY = 2048, 32, 4, 128, 128, 8, 768, 151936
F32, Q4_K, Q6_K, BF16 = 0, 12, 14, 30
ALIGNMENT = 32


def q4_k(rng, n):
    """256 weights in 144 bytes: scales d and dmin, 12 bytes of 6-bit scales, 128 of 4-bit codes."""
    blocks = rng.integers(0, 256, (n // 256, 144), dtype=np.uint8)
    blocks[:, :4] = np.frombuffer(np.array([1.0e-4, 7.5e-4], np.float16).tobytes(), np.uint8)
    return blocks.tobytes()


def q6_k(rng, n):
    """256 weights in 210 bytes: 192 bytes of 6-bit codes, 16 8-bit scales, the scale d."""
    blocks = rng.integers(0, 256, (n // 256, 210), dtype=np.uint8)
    blocks[:, 208:] = np.frombuffer(np.float16(1.5e-5).tobytes(), np.uint8)
    return blocks.tobytes()


def f32(rng, n):
    """Numbers of bfloat16, as those that converters of published checkpoints leave in float32."""
    numbers = rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)
    return (numbers.view(np.uint32) & 0xFFFF0000).astype(np.uint32).tobytes()


def ones(_rng, n):
    return np.ones(n, np.float32).tobytes()


def bf16(rng, n):
    numbers = rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes()


SIZES = {q4_k: (256, 144), q6_k: (256, 210), f32: (1, 4), ones: (1, 4), bf16: (1, 2)}
TYPES = {q4_k: Q4_K, q6_k: Q6_K, f32: F32, ones: F32, bf16: BF16}


def tensors(kind, n_layers):
    """Names, dimensions (the last varies slowest, as GGUF lists them) and makers, in the order of the file."""
    usual, more = (bf16, bf16) if kind == "bf16" else (q4_k, q6_k)
    yield "token_embd.weight", (HIDDEN, VOCABULARY), usual
    yield "output_norm.weight", (HIDDEN,), ones
    yield "output.weight", (HIDDEN, VOCABULARY), more
    for layer in range(n_layers):
        # llama.cpp's Q4_K_M gives some layers more bits
        eighth = n_layers // 8
        rich = more if layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2 else usual
        for name, dimensions, make in (
            ("attn_norm", (HIDDEN,), ones),
            ("attn_q", (HIDDEN, HEADS * HEAD), usual),
            ("attn_k", (HIDDEN, KV_HEADS * HEAD), usual),
            ("attn_v", (HIDDEN, KV_HEADS * HEAD), rich),
            ("attn_output", (HEADS * HEAD, HIDDEN), usual),
            ("attn_q_norm", (HEAD,), ones),
            ("attn_k_norm", (HEAD,), ones),
            ("ffn_norm", (HIDDEN,), ones),
            ("ffn_gate_inp", (HIDDEN, EXPERTS), f32),
            ("ffn_gate_exps", (HIDDEN, WIDTH, EXPERTS), usual),
            ("ffn_up_exps", (HIDDEN, WIDTH, EXPERTS), usual),
            ("ffn_down_exps", (WIDTH, HIDDEN, EXPERTS), rich),
        ):
            yield f"blk.{layer}.{name}.weight", dimensions, make


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def metadata(n_layers):
    keys = {
        "block_count": n_layers,
        "context_length": 40960,
        "embedding_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "expert_count": EXPERTS,
        "expert_used_count": TOP_K,
        "expert_feed_forward_length": WIDTH,
        "feed_forward_length": 3 * HIDDEN,
    }
    out = [text("general.architecture") + struct.pack("<I", 8) + text("qwen3moe")]
    out += [text("general.name") + struct.pack("<I", 8) + text("random 30B-A3B")]
    out += [text(f"qwen3moe.{key}") + struct.pack("<II", 4, value) for key, value in keys.items()]
    for key, value in (("attention.layer_norm_rms_epsilon", 1e-6), ("rope.freq_base", 1e6)):
        out.append(text(f"qwen3moe.{key}") + struct.pack("<If", 6, value))
    return out


def aligned(size):
    return -size % ALIGNMENT


def write(path, kind, n_layers, hollow):
    rng = np.random.default_rng(1)
    listed = list(tensors(kind, n_layers))
    keys = metadata(n_layers)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(keys)) + b"".join(keys)
    offset, sizes = 0, []
    for name, dimensions, make in listed:
        block, size = SIZES[make]
        sizes.append(int(np.prod(dimensions, dtype=np.int64)) // block * size)
        head += text(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        head += struct.pack("<IQ", TYPES[make], offset)
        offset += sizes[-1] + aligned(sizes[-1])
    with open(path, "wb") as file:
        file.write(head + bytes(aligned(len(head))))
        if hollow:
            file.truncate(file.tell() + offset)
            return
        for (name, dimensions, make), size in zip(listed, sizes):
            left = int(np.prod(dimensions, dtype=np.int64))
            while left > 0:
                part = min(left, 1 << 25)
                file.write(make(rng, part))
                left -= part
            file.write(bytes(aligned(size)))
            if sys.stderr.isatty():
                print(f"\r{file.tell() / 1e9:.2f} of {(offset + len(head)) / 1e9:.2f} GB", end="", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", choices=("q4_k_m", "bf16"), default="q4_k_m")
    parser.add_argument("--layers", type=int, default=8, help="at least 8 with q4_k_m")
    parser.add_argument("--hollow", action="store_true", help="no weights, only their place")
    parser.add_argument("file")
    args = parser.parse_args()
    write(args.file, args.type, args.layers, args.hollow)


if __name__ == "__main__":
    main()
