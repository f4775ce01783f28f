#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_logits.py MODEL.gguf FILE - logits of a small Qwen3-MoE model in float64, for tests.

The weights are dequantized by the Python package gguf, the rest is numpy. It wrote
tests/data/logits/tiny-moe-q4_k_m.f32 from tests/data/tiny-moe/tiny-moe-q4_k_m.gguf: float32 logits
[positions of KEPT][vocabulary] behind the ids of ids().
"""
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

KEPT = [0, 1, 31, 62, 63, 64, 65, 69]  # the cache's pages have 64 tokens


def ids():
    """70 tokens, none special."""
    return [(7 * i * i + 11 * i + 5) % 2000 for i in range(70)]


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(heads, base):
    size = heads.shape[-1]
    angles = np.arange(heads.shape[0])[:, None] * base ** (-np.arange(0, size, 2) / size)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = heads[..., :size // 2], heads[..., size // 2:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attend(q, k, v):
    n, n_heads, size = q.shape
    out = np.zeros_like(q)
    for head in range(n_heads):
        group = head * k.shape[1] // n_heads
        scores = q[:, head] @ k[:, group].T / np.sqrt(size)
        scores[np.triu_indices(n, 1)] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[:, head] = weights / weights.sum(1, keepdims=True) @ v[:, group]
    return out.reshape(n, -1)


def experts(h, tensors, prefix, top_k):
    out = np.zeros_like(h)
    logits = h @ tensors[prefix + "ffn_gate_inp.weight"].T
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    gate, up, down = (tensors[prefix + f"ffn_{name}_exps.weight"] for name in ("gate", "up", "down"))
    for row, x in enumerate(h):
        chosen = np.argsort(-weights[row], kind="stable")[:top_k]
        for expert in chosen:
            g = gate[expert] @ x
            out[row] += weights[row, expert] / weights[row, chosen].sum() * (
                down[expert] @ (g / (1 + np.exp(-g)) * (up[expert] @ x)))
    return out


def main():
    reader = GGUFReader(sys.argv[1])
    tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}

    def key(name):
        return reader.fields["qwen3moe." + name].parts[-1][0]

    eps, base = float(key("attention.layer_norm_rms_epsilon")), float(key("rope.freq_base"))
    n_heads, n_kv, size = int(key("attention.head_count")), int(key("attention.head_count_kv")), int(key("attention.key_length"))
    x = tensors["token_embd.weight"][ids()]
    for layer in range(int(key("block_count"))):
        prefix = f"blk.{layer}."
        h = norm(x, tensors[prefix + "attn_norm.weight"], eps)
        q, k, v = ((h @ tensors[prefix + f"attn_{name}.weight"].T).reshape(len(h), n, size)
                   for name, n in (("q", n_heads), ("k", n_kv), ("v", n_kv)))
        q = rotate(norm(q, tensors[prefix + "attn_q_norm.weight"], eps), base)
        k = rotate(norm(k, tensors[prefix + "attn_k_norm.weight"], eps), base)
        x = x + attend(q, k, v) @ tensors[prefix + "attn_output.weight"].T
        x = x + experts(norm(x, tensors[prefix + "ffn_norm.weight"], eps), tensors, prefix, int(key("expert_used_count")))
    logits = norm(x, tensors["output_norm.weight"], eps) @ tensors["output.weight"].T
    logits[KEPT].astype("<f4").tofile(sys.argv[2])


if __name__ == "__main__":
    main()
