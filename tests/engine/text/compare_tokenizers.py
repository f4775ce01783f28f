#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_tokenizers.py KT FOLDER N [MODEL...] - kt tokenize and kt detokenize beside Hugging Face's tokenizers.

Vocabularies of each kind are trained in FOLDER on words of Unicode, and MODELs, folders with tokenizer.json, are read;
each gets N random texts. So do GGUF files with the same vocabularies, of which tokenizer.ggml.pre says how they cut words.
Prints a line for each, and the first differences; exit status 1 if there are any.
"""
import json
import random
import subprocess
import sys

from make_gguf import I32, KEY, TEXT, write
from make_tokenizers import byte_level, draw, kinds, train
from tokenizers import Tokenizer, normalizers


def ask(kt, verb, model, lines):
    result = subprocess.run([kt, verb, model, "--jsonl"], input="\n".join(json.dumps(x) for x in lines) + "\n",
                            capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"kt {verb} {model}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def compare(name, kt, model, oracle, n):
    random_ = random.Random(name)
    texts = [draw(random_) for _ in range(n)]
    wanted = [oracle.encode(text, add_special_tokens=False).ids for text in texts]
    ids = ask(kt, "tokenize", model, texts)
    shown = ask(kt, "detokenize", model, wanted)
    wrong = 0
    for text, got, want, back in zip(texts, ids, wanted, shown, strict=True):
        decoded = oracle.decode(want, skip_special_tokens=False)
        if got == want and back == decoded:
            continue
        wrong += 1
        if wrong <= 3:
            print(f"{name}: {text!a}: {got} {back!a}, wanted {want} {decoded!a}")
    print(f"{name}: {n} texts, {wrong} wrong")
    return wrong


# What GGUF files call ways to cut words that only a tokenizer.json tells from llama.cpp's; whole words may pass over merges.
PRE = {"qwen2": False, "qwen35": False, "deepseek-v3": False, "deepseek-coder": False, "gpt-4o": True, "llama-bpe": True,
       "tekken": True, "kimi-k2": True, "tiny_aya": False, "youtu": True, "starcoder": False, "gpt-2": False}


def compare_gguf(name, kt, folder, texts, n):
    is_qwen = name.startswith("qwen")
    tokenizer = train(name, byte_level(name, normalizers.NFC() if is_qwen else None, PRE[name]), texts, 1500)
    whole = json.loads(tokenizer.to_str())
    whole["added_tokens"] = []
    model = whole["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    path = f"{folder}/{name}.gguf"
    write(path, {"general.architecture": (TEXT, "qwen3"), KEY + "model": (TEXT, "gpt2"), KEY + "pre": (TEXT, name),
                 KEY + "tokens": (TEXT, tokens), KEY + "token_type": (I32, [1] * len(tokens)),
                 KEY + "merges": (TEXT, [" ".join(pair) for pair in model["merges"]])})
    return compare(name + " (GGUF)", kt, path, Tokenizer.from_str(json.dumps(whole)), n)


def main():
    kt, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    random_ = random.Random(5)
    texts = [" ".join(draw(random_) for _ in range(40)) for _ in range(60)] + ["the words of a text, a word " * 50]
    wrong = 0
    for name, tokenizer in kinds():
        tokenizer = train(name, tokenizer, texts, 1500)
        path = f"{folder}/{name}.json"
        tokenizer.save(path)
        wrong += compare(name, kt, path, tokenizer, n)
    for name in PRE:
        wrong += compare_gguf(name, kt, folder, texts, n)
    for model in sys.argv[4:]:
        wrong += compare(model, kt, model, Tokenizer.from_file(model + "/tokenizer.json"), n)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
