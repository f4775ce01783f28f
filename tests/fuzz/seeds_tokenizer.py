#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds_tokenizer.py FOLDER - small tokenizer.json and tiktoken files behind a text and a zero byte."""
import base64
import json
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


def write(n, text, file):
    with open(f"{sys.argv[1]}/seed-{n}", "wb") as out:
        out.write(text.encode() + b"\0" + file)


if __name__ == "__main__":
    main()
