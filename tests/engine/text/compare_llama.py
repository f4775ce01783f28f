#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_llama.py KT FOLDER N [MODEL...] - kt tokenize beside llama.cpp (llama-cpp-python) on GGUF files.

A file in FOLDER has a vocabulary whose tokens go on over all borders of words; its tokenizer.ggml.pre is each name that
llama.cpp knows, in turn, and each gets N random texts; so do the MODELs, GGUF files. Prints a line for each name and the
first differences; exit status 1 if there are any.
"""
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import unicodedata

import llama_cpp

from make_gguf import BOOL, F32, I32, KEY, TEXT, U32, byte_names, write
from make_tokenizers import draw

# Names of one line cut alike.
NAMES = """
gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe modern-bert gigachat a.x-4.0 mellum
exaone4 mpt olmo jais trillion granite-docling
starcoder refact command-r smollm codeshell exaone minerva-7b mellum2
falcon default qwen2 deepseek-r1-qwen f2llmv2 qwen35 stablelm2 megrez kormo hunyuan solar-open grok-2 laguna ufakzeka seed-coder
bailingmoe bailingmoe2 llada-moe exaone-moe
llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano
chatglm-bpe dbrx smaug-bpe glm4 glm5 minicpm5 jais-2
gpt-4o llama4 kanana2 talkie granite-embed-multi-97m minimax-m2 tiny_aya cohere2moe youtu tekken kimi-k2
deepseek-v3 hunyuan-dense joyai-llm hy_v4 spark2_5 afmoe superbpe deepseek-llm deepseek-coder
bloom poro-chat gpt3-finnish viking chameleon gemma4 granite-embed-multi-311m sarvam-moe
""".split()
CHARACTERS = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}

QWEN = {"qwen2", "deepseek-r1-qwen", "f2llmv2", "qwen35"}
CASES = {"gpt-4o", "llama4", "kanana2", "talkie", "granite-embed-multi-97m", "minimax-m2", "tekken", "kimi-k2"}
GROUPS = {"tiny_aya", "cohere2moe", "youtu", "afmoe", "superbpe"}
DEEPSEEK = {"deepseek-llm", "deepseek-coder"}
HAN = "\u3005\u3007\u3021\u3022\u3023\u3024\u3025\u3026\u3027\u3028\u3029\u3038\u3039\u303a\u303b"


def without(text, is_other):
    return "".join("x" if is_other(char) else char for char in text)


def alike(name, text):
    """The text without what llama.cpp cuts in another way than the model's own tokenizer.json does."""
    text = text.replace("\u017f", "s")  # which is an s where case does not matter
    category = unicodedata.category
    if name in QWEN:
        text = unicodedata.normalize("NFC", text)
    if name in CASES:
        text = without(text, lambda c: c > "\x7f" and category(c) in ("Lu", "Ll", "Lt", "Mn", "Mc", "Me"))
    if name in GROUPS or name == "kimi-k2":
        text = without(text.lower(), lambda c: category(c) in ("Lu", "Lt", "Nl", "No") or c in HAN)
    if name in GROUPS - {"youtu"}:
        text = re.sub(r"\s*(\d+)\s*", r" \1 ", without(text, lambda c: c > "\x7f" and c.isdigit())).replace("  ", " ")
    if name in DEEPSEEK:
        text = "".join(" " if c > "\u07ff" and c.isspace() else c for c in text)
    return text


def learn(texts, alphabet, n):
    """n merges of the most frequent pairs within texts, lists of symbols, whatever the borders of words."""
    merges, tokens = [], list(alphabet)
    known = set(tokens)
    while len(merges) < n:
        counts = {}
        for text in texts:
            for pair in zip(text, text[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        taken, used = [], set()
        for pair in sorted(counts, key=lambda p: (-counts[p], p)):  # several in a round, for speed
            if len("".join(pair)) <= 8 and not used & set(pair) and "".join(pair) not in known:
                taken.append(pair)
                used |= set(pair)
                known.add("".join(pair))
            if len(taken) == 40:
                break
        if not taken:
            break
        merges += taken
        tokens += ["".join(pair) for pair in taken]
        taken = set(taken)
        for text in texts:
            i = 0
            while i + 1 < len(text):
                if (text[i], text[i + 1]) in taken:
                    text[i:i + 2] = [text[i] + text[i + 1]]
                i += 1
    return tokens, merges


def vocabularies(texts):
    """Entries of a vocabulary of bytes and of one of characters."""
    names = byte_names()
    tokens, merges = learn([[names[b] for b in text.encode()] for text in texts], names.values(), 1500)
    yield {KEY + "tokens": (TEXT, tokens + ["<|begin|>"]), KEY + "token_type": (I32, [1] * len(tokens) + [3]),
           KEY + "bos_token_id": (U32, len(tokens)), KEY + "merges": (TEXT, [" ".join(pair) for pair in merges])}
    raw = [list(text.replace(" ", "▁")) for text in texts]
    alphabet = sorted({char for text in raw for char in text if ord(char) % 3 and char != "\n"})  # a third are bytes
    hexes = [f"<0x{b:02X}>" for b in range(256)]
    tokens, merges = learn([[c for c in text if c in alphabet] for text in raw], alphabet, 1500)
    merges += [("\n" * left, "\n" * right) for size in range(2, 33) for left in range(1, size) for right in [size - left]]
    tokens += ["\n" * i for i in range(1, 33)]
    yield {KEY + "tokens": (TEXT, hexes + tokens + ["<|begin|>"]),
           KEY + "token_type": (I32, [6] * 256 + [1] * len(tokens) + [3]), KEY + "bos_token_id": (U32, 256 + len(tokens)),
           KEY + "merges": (TEXT, [" ".join(pair) for pair in merges])}


def sentencepiece(name, texts, adds_space):
    """Entries of a vocabulary of SentencePiece's, with special tokens that texts have."""
    raw = [list(text.replace(" ", "▁")) for text in texts]
    alphabet = sorted({char for text in raw for char in text if ord(char) % 3} - {"\n"})
    tokens, _ = learn([[c for c in text if c in alphabet] for text in raw], alphabet, 1500)
    control = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    user = ["<think>", "</think>"] + ["  ", "\n\n"] * (name != "Phi-3")
    hexes = [f"<0x{b:02X}>" for b in range(256)]
    types = [2, 3, 3, 3, 3, 3] + [4] * len(user) + [6] * 256 + [1] * len(tokens)
    scores = [0.0] * (len(types) - len(tokens)) + [-float(i // 3) for i in range(len(tokens))]  # with equal ones
    return {"general.architecture": (TEXT, "llama"), "general.name": (TEXT, name), KEY + "model": (TEXT, "llama"),
            KEY + "pre": (TEXT, "default"), KEY + "tokens": (TEXT, control + user + hexes + tokens), KEY + "token_type": (I32, types),
            KEY + "scores": (F32, scores), KEY + "bos_token_id": (U32, 1), KEY + "eos_token_id": (U32, 2),
            KEY + "add_space_prefix": (BOOL, adds_space)}


def ask(kt, model, texts):
    result = subprocess.run([kt, "tokenize", model, "--jsonl", "--bos"], input="\n".join(json.dumps(x) for x in texts) + "\n",
                            capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"kt tokenize {model}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


class Oracle:
    def __init__(self, path):
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
        if not self.model:
            sys.exit(f"llama.cpp cannot read {path}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.ids = (llama_cpp.llama_token * 65536)()

    def encode(self, text):
        data = text.encode()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), self.ids, len(self.ids), True, True)
        return list(self.ids[:n])

    def close(self):
        llama_cpp.llama_model_free(self.model)


def compare(name, kt, path, texts):
    oracle = Oracle(path)
    wanted = [oracle.encode(text) for text in texts]
    oracle.close()
    wrong = 0
    for text, got, want in zip(texts, ask(kt, path, texts), wanted, strict=True):
        if got == want:
            continue
        wrong += 1
        if wrong <= 3:
            print(f"{name}: {text!a}: {got}, wanted {want}")
    return wrong


@llama_cpp.llama_log_callback
def be_quiet(level, text, data):
    pass


def main():
    kt, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    llama_cpp.llama_log_set(be_quiet, ctypes.c_void_p(0))
    random_ = random.Random(48)
    # llama.cpp takes tokens with some names, such as </s>, for special ones: none is to be learned.
    vocabularies_ = list(vocabularies([draw(random_).replace("<", "") for _ in range(150)]))
    wrong, total, path = 0, 0, os.path.join(folder, "pre.gguf")
    only = os.environ.get("KT_TEST_PRE", "").split() or NAMES
    for name in only:
        random_ = random.Random(name)
        base = vocabularies_[name in CHARACTERS]
        write(path, {"general.architecture": (TEXT, "qwen3"), KEY + "model": (TEXT, "gpt2"), KEY + "pre": (TEXT, name), **base})
        differing = compare(name, kt, path, [alike(name, draw(random_)) for _ in range(n)])
        print(f"{name}: {n} texts, {differing} wrong")
        wrong += differing
    for name, adds_space in (("llama", True), ("llama, no space", False), ("Phi-3", True)):
        random_ = random.Random(48)
        write(path, sentencepiece(name, [draw(random_).replace("<", "") for _ in range(150)], adds_space))
        texts = [draw(random_).replace("<s>", "") for _ in range(n)]  # or else BOS would come twice
        if name == "Phi-3":  # llama.cpp's special tokens take ASCII's white space only
            texts = ["".join(" " if c.isspace() and c > "\x7f" else c for c in text) for text in texts]
        differing = compare(name, kt, path, texts)
        print(f"{name}: {n} texts, {differing} wrong")
        wrong += differing
    for model in sys.argv[4:]:
        random_ = random.Random(model)
        differing = compare(model, kt, model, [draw(random_) for _ in range(n)])
        print(f"{model}: {n} texts, {differing} wrong")
        wrong += differing
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
