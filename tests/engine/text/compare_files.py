#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_files.py KT FOLDER N [SEED [SECONDS]] - random tokenizer.json files: kt tokenize beside Hugging Face's tokenizers.

Each file draws its alphabet, merges, added tokens, normalizer, pre-tokenizer and the options of its model. What kt reads must
give the same ids, each text alone and all in turn; what it does not, it refuses by name. FOLDER keeps the files that differ.
With SECONDS, as many as they allow, and the last line is what the campaign counts. KT_TEST_REFUSALS=1 lists refusals.
"""
import json
import os
import random
import resource
import subprocess
import sys
import time

from make_tokenizers import draw
from tokenizers import Tokenizer, pre_tokenizers

WORDS = ["foo", "bar", "hello", "the ", " a", "foobar", "bar baz", "éa", "e\u0301", "日本", "ﬁ", "12", "  ", "\n\n", "A", "x", "▁", "€", "Ġ",
         "\u00a0", "½", "x⁴", "<x>", "word", "ba", "fo", "Foo", "_", ".", "Ａ", "²", " \n", "<0x41>", "<unk>"]
ADDED = ["foo", "fo", "A", "bar baz", "<think>", "<|im_end|>", "<|x", "|>", "<|x|>", "  ", "\n\n", "\n", " ", "hello", "é", "Ġ", "▁", "ﬁ",
         "e\u0301", "日", "<unk>", "<s>", "b", "a", " foo", "foo ", "Ａ", "<0x41>", "x", "oo", "12", "."]


def chance(r, p):
    return r.random() < p


def normalizer(r, depth=0):
    kind = r.randrange(12 if depth == 0 else 8)
    if kind == 0:
        return {"type": r.choice(["NFC", "NFD", "NFKC", "NFKD"])}
    if kind == 1:
        return {"type": "Prepend", "prepend": r.choice(["▁", "x", " ", "▁▁"])}
    if kind == 2:
        return {"type": "Replace", "pattern": {"String": r.choice([" ", "a", "  ", "foo", "\n"])},
                "content": r.choice(["▁", "b", "", " ", "fo"])}
    if kind == 3:
        return {"type": "Replace", "pattern": {"Regex": r.choice([" {2,}", r"\s+", "[ab]", "o+", r"^\s"])},
                "content": r.choice(["▁", "b", "", " "])}
    if kind == 4:
        return {"type": "Strip", "strip_left": chance(r, 0.5), "strip_right": chance(r, 0.5)}
    if kind == 5 and depth < 2:
        return {"type": "Sequence", "normalizers": [n for n in (normalizer(r, depth + 1) for _ in range(r.randrange(4))) if n]}
    if kind == 6 and chance(r, 0.2):
        return {"type": r.choice(["Lowercase", "StripAccents", "Nmt"])}
    return None


def pre_step(r):
    kind = r.randrange(6)
    if kind < 3:
        pattern = {"Regex": r.choice([r"\p{N}{1,3}", r"\s+", r"\w+|[^\w\s]+", "o", r"\s?\p{L}+", "[\r\n]", "a|b*", r"\b", r"\w", r"[\w.]+", r"\W+", r"\Bo"])} if chance(r, 0.6) \
            else {"String": r.choice(["▁", " ", "a", "oo", "."])}
        return {"type": "Split", "pattern": pattern, "invert": chance(r, 0.2),
                "behavior": r.choice(["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"])}
    if kind == 3:
        return {"type": "Digits", "individual_digits": chance(r, 0.5)}
    if kind == 4:
        return {"type": "WhitespaceSplit"}
    return {"type": r.choice(["Whitespace", "Punctuation", "WhitespaceSplit"])} if chance(r, 0.2) else metaspace(r)


def metaspace(r):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": r.choice(["always", "first", "never"]), "split": chance(r, 0.5)}


def byte_level(r):
    return {"type": "ByteLevel", "add_prefix_space": chance(r, 0.15), "trim_offsets": chance(r, 0.5), "use_regex": chance(r, 0.5)}


def pre_tokenizer(r, has_bytes):
    steps = [pre_step(r) for _ in range(r.choice([0, 0, 0, 1, 1, 2]))]
    if has_bytes:
        steps.insert(len(steps) if chance(r, 0.95) else 0, byte_level(r))
    elif chance(r, 0.3):
        steps.insert(0, metaspace(r))
    if not steps:
        return None
    return steps[0] if len(steps) == 1 and chance(r, 0.7) else {"type": "Sequence", "pretokenizers": steps}


def to_bytes(text):
    chars = bytes_to_chars()
    return "".join(chars[b] for b in text.encode())


def bytes_to_chars(known={}):
    if not known:
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        known.update({b: chr(b) for b in plain})
        rest = [b for b in range(256) if b not in known]
        known.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return known


def pieces(r, has_bytes):
    """An alphabet, and pairs that join it to words."""
    words = [to_bytes(w) if has_bytes else w.replace(" ", r.choice(" ▁")) for w in r.sample(WORDS, r.randint(3, len(WORDS)))]
    if has_bytes:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        if chance(r, 0.15):
            alphabet = [c for c in alphabet if not chance(r, 0.1)]
    else:
        alphabet = sorted({c for w in words for c in w} | set("abfox ▁hel") - set(r.sample("abfox ▁hel", r.randrange(4))))
        alphabet = [c for c in alphabet if not chance(r, 0.1)]
    r.shuffle(alphabet)
    vocab, merges = list(alphabet), []
    for word in words:
        parts = list(word)
        while len(parts) > 1:
            at = r.randrange(len(parts) - 1)
            if all(p in vocab for p in parts[at:at + 2]):
                if parts[at:at + 2] not in merges:
                    merges.append(parts[at:at + 2])
                if parts[at] + parts[at + 1] not in vocab:
                    vocab.append(parts[at] + parts[at + 1])
            elif chance(r, 0.5):
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
            if chance(r, 0.1):
                break
    r.shuffle(merges)
    return vocab, merges


def model(r, has_bytes):
    vocab, merges = pieces(r, has_bytes)
    if chance(r, 0.3 if has_bytes else 0.9):
        vocab.insert(r.randrange(len(vocab)), "<unk>")
        if chance(r, 0.1):
            vocab.append("<unk>a")
            merges += [["<unk>", "a"]] if "a" in vocab else []
    fallback = chance(r, 0.03 if has_bytes else 0.4)
    if fallback:
        names = [f"<0x{b:02X}>" for b in range(256)]
        names = names if chance(r, 0.5) else r.sample(names, r.choice([2, 100, 250]))
        vocab += [n for n in names if n not in vocab]
        if chance(r, 0.2) and len(names) > 99:
            pair = r.sample(names, 2) if "<0xC3>" not in names or "<0xA9>" not in names else ["<0xC3>", "<0xA9>"]
            merges.append(pair)
            vocab.append("".join(pair))
    return {"type": "BPE", "dropout": r.choice([None] * 9 + [0.0]), "unk_token": "<unk>" if "<unk>" in vocab and chance(r, 0.95) else None,
            "continuing_subword_prefix": r.choice([None] * 9 + [""]), "end_of_word_suffix": r.choice([None] * 9 + [""]),
            "fuse_unk": chance(r, 0.5), "byte_fallback": fallback, "ignore_merges": chance(r, 0.4),
            "vocab": {t: i for i, t in enumerate(dict.fromkeys(vocab))}, "merges": merges if chance(r, 0.7) else [" ".join(m) for m in merges]
            if not any(" " in p for m in merges for p in m) else merges}


def added_tokens(r, vocab):
    tokens, new = [], len(vocab)
    pool = ADDED + [t for t in vocab if len(t) < 8 and not t.startswith("<0x")][-40:]
    for content in dict.fromkeys(r.choice(pool if chance(r, 0.8) else ADDED) for _ in range(r.choice([0, 1, 2, 3, 5, 8]))):
        id_ = vocab.get(content)
        if id_ is None:
            id_, new = new, new + 1
        tokens.append({"id": id_, "content": content, "single_word": chance(r, 0.25), "lstrip": chance(r, 0.25),
                       "rstrip": chance(r, 0.25), "normalized": chance(r, 0.4), "special": chance(r, 0.4)})
    if chance(r, 0.02) and tokens:
        tokens.append(dict(r.choice(tokens), single_word=True))
    return tokens


def make(r):
    has_bytes = chance(r, 0.6)
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer(r),
             "pre_tokenizer": pre_tokenizer(r, has_bytes), "post_processor": None, "decoder": None, "model": model(r, has_bytes)}
    if has_bytes:
        whole["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    whole["added_tokens"] = added_tokens(r, whole["model"]["vocab"])
    return whole


def text(r, whole):
    scraps = WORDS + [t["content"] for t in whole["added_tokens"]] * 3 + [" ", " ", "\n", "a", "b", "fo", "€", "é"]
    out = ""
    for _ in range(r.randint(1, 9)):
        out += r.choice(scraps) if chance(r, 0.9) else draw(r)[:6]
    return out


def ask(kt, path, texts):
    result = subprocess.run([kt, "tokenize", path, "--jsonl"], input="\n".join(json.dumps(x) for x in texts) + "\n",
                            capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        return [], f"exit status {result.returncode}: {result.stderr}"
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]], result.stderr


def wanted_ids(whole, texts):
    """[TEXT, IDS] of a process of its own: for some files tokenizers panics, or takes all memory or time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            oracle = Tokenizer.from_str(json.dumps(whole))
            for one in texts:
                try:
                    ids = oracle.encode(one, add_special_tokens=False).ids
                except BaseException:  # pylint: disable=broad-except # a panic
                    continue
                os.write(writing, json.dumps([one, ids]).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]
    os.waitpid(child, 0)
    return [json.loads(line) for line in lines]


def compare(kt, path, whole, texts, refusals):
    """What differs, in words; None: nothing."""
    wanted = wanted_ids(whole, texts)
    if not wanted:
        return None
    with open(path, "w", encoding="utf-8") as file:
        json.dump(whole, file, ensure_ascii=False)
    order = wanted + wanted[::-1]
    got, words = ask(kt, path, [t for t, _ in order])
    for (one, ids), mine in zip(order, got):
        if mine != ids:
            return f"{one!a}: {mine}, wanted {ids}"
    if len(got) < len(order):
        refusals.append(words.strip().split(".json: ")[-1])
        if not words.startswith("kt tokenize: error: "):
            return f"{order[len(got)][0]!a}: {words}"
    return None


def main():
    kt, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    end = time.monotonic() + float(sys.argv[5]) if len(sys.argv) > 5 else None
    wrong, refusals, tried = 0, [], 0
    while tried < n if end is None else time.monotonic() < end:
        r = random.Random(seed + tried)
        whole = make(r)
        path = f"{folder}/random-{seed + tried}.json"
        found = compare(kt, path, whole, [text(r, whole) for _ in range(25)], refusals)
        tried += 1
        if found:
            wrong += 1
            if wrong <= 20:
                print(f"{path}: {found}")
        elif os.path.exists(path):
            os.remove(path)
    if os.environ.get("KT_TEST_REFUSALS"):
        for words in sorted(set(refusals)):
            print(f"{refusals.count(words):5} {words}")
    if end is None:
        print(f"{tried} files, {wrong} wrong, {len(refusals)} refused, the file or a text")
    else:  # as attack.c
        print(tried, 0, 0, wrong, 0, seed + tried)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
