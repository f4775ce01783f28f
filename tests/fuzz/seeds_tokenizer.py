#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds_tokenizer.py FOLDER - small tokenizer.json, tiktoken and GGUF files behind a text and a zero byte."""
import base64
import json
import struct
import sys

VOCAB = {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁a": 4, "<unk>": 5, "<0x41>": 6, "Ġ": 7, "Ġa": 8}
ADDED = [{"id": 9, "content": "<s>", "special": True, "lstrip": True}, {"id": 10, "content": "aé", "normalized": True},
         {"id": 11, "content": "wo", "single_word": True, "rstrip": True}]
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
STEPS = [
    {"pre_tokenizer": BYTES},
    {"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(?i:'s)|\\p{L}+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated"},
        {"type": "Digits", "individual_digits": True}, dict(BYTES, use_regex=False, add_prefix_space=False)]}},
    {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFKD"}, {"type": "Prepend", "prepend": "▁"}, {"type": "Strip", "strip_left": True},
        {"type": "Replace", "pattern": {"Regex": "[ x]+"}, "content": "▁"}]}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
     "decoder": {"type": "Sequence", "decoders": [{"type": "Strip", "content": " ", "start": 1}]}},
    {"pre_tokenizer": {"type": "Split", "pattern": {"String": "a."}, "behavior": "MergedWithPrevious", "invert": True}},
]


def main():
    n = 0
    for steps in STEPS:
        for model in ({"fuse_unk": True, "byte_fallback": True}, {"ignore_merges": True}):
            whole = {"added_tokens": ADDED, **steps,
                     "model": {"type": "BPE", "unk_token": "<unk>", "vocab": VOCAB, "merges": ["a b", ["▁", "a"], "Ġ a"],
                               **model}}
            write(n, "ab <s>é a\u0301 wo \x85" * 3, json.dumps(whole, ensure_ascii=False).encode())
            n += 1
    ranks = [bytes([i]) for i in range(97, 123)] + [b"ab", b" a"]
    write(n, "abc", b"".join(base64.b64encode(b) + b" %d\n" % i for i, b in enumerate(ranks)))
    for pre in ("gpt-2", "llama-bpe", "deepseek-v3", "tekken"):
        n += 1
        write(n, "ab <s> b\u00e9 1", gguf({"model": "gpt2", "pre": pre, "tokens": ["a", "b", "ab", "<s>", "Ġ", "Ġa", "Ã", "©"],
                                         "token_type": [1, 1, 1, 3, 1, 1, 1, 4], "merges": ["a b", "Ġ a"], "bos_token_id": 3,
                                         "eos_token_id": 3, "padding_token_id": 3, "add_bos_token": True}))
    write(n + 1, "ab a\u00e9A", gguf({"model": "llama", "tokens": ["<unk>", "<s>", "<0x41>", "▁", "a", "▁a", "b"],
                                      "token_type": [2, 3, 6, 1, 1, 1, 4], "scores": [0.0, -1.0, -2.0, -3.0, -4.0, -1.5, 0.5],
                                      "add_space_prefix": True, "unknown_token_id": 0, "eot_token_id": 1}))


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(what, is_element=False):
    """The type of a value and its bytes."""
    if isinstance(what, list):
        items = [value(item, True) for item in what]
        return 9, struct.pack("<IQ", items[0][0], len(items)) + b"".join(item[1] for item in items)
    if isinstance(what, bool):
        return 7, struct.pack("<B", what)
    if isinstance(what, str):
        return 8, string(what)
    return (6, struct.pack("<f", what)) if isinstance(what, float) else (5 if is_element else 4, struct.pack("<i", what))


def gguf(keys):
    keys = {"general.architecture": "qwen3", **{"tokenizer.ggml." + key: what for key, what in keys.items()}}
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, what in keys.items():
        kind, data = value(what)
        out += string(key) + struct.pack("<I", kind) + data
    return out


def write(n, text, file):
    with open(f"{sys.argv[1]}/seed-{n}", "wb") as out:
        out.write(text.encode() + b"\0" + file)


if __name__ == "__main__":
    main()
