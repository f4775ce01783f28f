#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_tokenizers.py FOLDER [TEXT...] - small vocabularies and what Hugging Face's tokenizers make of texts.

It wrote tests/data/tokenizers, from the texts of this tree; compare_tokenizers.py makes others of the same kinds. Each NAME.json
is a tokenizer.json, NAME.cases a list of [text, ids, decoded text].
"""
import json
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

S = r"\s*[\r\n]+|\s+(?!\S)|\s+"
C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
U, L = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
WORDS = {
    "qwen2": C + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + S,
    "qwen35": C + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + S,
    "llama-bpe": C + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + S,
    "gpt-4o": rf"[^\r\n\p{{L}}\p{{N}}]?{U}*{L}+{C}?|[^\r\n\p{{L}}\p{{N}}]?{U}+{L}*{C}?|\p{{N}}{{1,3}}|"
              r" ?[^\s\p{L}\p{N}]+[\r\n/]*|" + S,
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{U}*{L}+|[^\r\n\p{{L}}\p{{N}}]?{U}+{L}*|\p{{N}}|"
              r" ?[^\s\p{L}\p{N}]+[\r\n/]*|" + S,
    "kimi-k2": rf"\p{{Han}}+|[^\r\n\p{{L}}\p{{N}}]?{U[:-1]}&&[^\p{{Han}}]]*{L[:-1]}&&[^\p{{Han}}]]+{C}?|"
               rf"[^\r\n\p{{L}}\p{{N}}]?{U[:-1]}&&[^\p{{Han}}]]+{L[:-1]}&&[^\p{{Han}}]]*{C}?|"
               r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + S,
}
WORDS["youtu"] = WORDS["gpt-4o"].replace("{1,3}", "")


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def words(name):
    if name == "deepseek-v3":
        return [isolated(r"\p{N}{1,3}"), isolated("[一-龥\u3040-ゟ゠-ヿ]+"),
                isolated("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
                         " ?[\\p{P}\\p{S}]+[\r\n]*|" + S)]
    if name == "deepseek-coder":
        return [isolated("[\r\n]"), isolated(r"\s?\p{L}+"), isolated(r"\s?\p{P}+"),
                isolated("[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(True)]
    if name == "starcoder":
        return [pre_tokenizers.Digits(True), isolated(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")]
    if name == "punctuation":
        return [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False), isolated(r"[^(\s|[.,!?…。，、।۔،])]+")]
    if name == "tiny_aya":
        return [isolated(r"\d{1,3}(?=(?:\d{3})*\b)"), isolated(WORDS["gpt-4o"])]
    if name == "youtu":
        return [isolated("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+"), isolated(WORDS["youtu"])]
    return [isolated(WORDS[name])]


def byte_level(name, normalizer=None, ignore_merges=False, prefix=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    if name == "gpt-2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            words(name) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece(form):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=form != "unknown"))
    strip = [decoders.Strip(" ", 1, 0)] if form not in ("never", "gemma") else []
    if form == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif form == "legacy":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always" if form == "unknown" else form, split=form != "first")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()] + strip)
    return tokenizer


def kinds():
    yield "qwen2", byte_level("qwen2", normalizers.NFC())
    yield "qwen35", byte_level("qwen35", normalizers.NFC())
    yield "deepseek-v3", byte_level("deepseek-v3")
    yield "deepseek-coder", byte_level("deepseek-coder")
    yield "gpt-4o", byte_level("gpt-4o", ignore_merges=True)
    yield "llama-bpe", byte_level("llama-bpe", ignore_merges=True)
    yield "tekken", byte_level("tekken", ignore_merges=True)
    yield "gpt-2-prefix", byte_level("gpt-2", prefix=True)
    yield "nfkd", byte_level("qwen2", normalizers.Sequence([normalizers.NFKD(), normalizers.Strip()]))
    yield "kimi-k2", byte_level("kimi-k2")
    yield "punctuation", byte_level("punctuation")
    for form in ("legacy", "first", "never", "unknown", "gemma"):
        yield "spm-" + form, sentencepiece(form)


def train(name, tokenizer, texts, size):
    is_spm = name.startswith("spm")
    special = ["<unk>", "<s>", "</s>"] if is_spm else []
    bytes_ = [f"<0x{b:02X}>" for b in range(256)] if is_spm and name != "spm-unknown" else []
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=special + bytes_, max_token_length=16,
        initial_alphabet=[] if is_spm else pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    if bytes_:  # they are tokens of the model, and not added ones
        whole = json.loads(tokenizer.to_str())
        whole["added_tokens"] = [t for t in whole["added_tokens"] if not t["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(whole))
    # Prepend would make it a token that begins with a space.
    end = AddedToken("<|im_end|>", normalized=name != "spm-legacy", special=True)
    tokenizer.add_special_tokens(["<|im_start|>", end, AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("<tool>", rstrip=True, normalized=False),
                          AddedToken("word", single_word=True, normalized=False), AddedToken("<tool_call>", normalized=True)])
    return tokenizer


OLD = unicodedata.ucd_3_2_0


def is_settled(char):
    """Known to every version of Unicode that libraries may have, with the same class and the same forms."""
    return OLD.category(char) == unicodedata.category(char) != "Cn" and \
        OLD.combining(char) == unicodedata.combining(char) and OLD.decomposition(char) == unicodedata.decomposition(char)


RANGES = [(32, 126), (9, 13), (0x80, 0x24F), (0x300, 0x362), (0x370, 0x6FF), (0x900, 0x11FF), (0x2000, 0x206F),
          (0x3000, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xF900, 0xFA2D), (0x1D400, 0x1D7FF), (0x20000, 0x2A6D6)]
SCRAPS = ["'s", "'S", "'re", "don't", "'\u017f", " the", "  ", "\n\n", "\r\n", "123", "4567", "...", "//", "<|im_start|>",
          "<|im_end|>", "<|im_", "<think>", "</think>", "<tool>", "<tool> ", "<tool_call>", " <mask>", "<mask>", "word", "words",
          " word ", "<s>", "</s>", "<unk>", "<0x41>", "▁", "Ġ", "\u2028", "\u3000", "é", "e\u0301", "\u1100\u1161\u11a8"]


def draw(random_):
    """A text of few kinds of characters and scraps."""
    pools = random_.sample(RANGES, random_.randint(1, 4))
    text = ""
    for _ in range(random_.randint(1, 30)):
        char = chr(random_.randint(*random_.choice(pools)))
        text += random_.choice(SCRAPS) if random_.random() < 0.2 else char if is_settled(char) else "x"
    return text


def main():
    folder, texts = sys.argv[1], [open(path, encoding="utf-8").read() for path in sys.argv[2:]]
    for name, tokenizer in kinds():
        tokenizer = train(name, tokenizer, texts, 700)
        random_ = random.Random(name)
        cases = []
        for _ in range(150):
            text = draw(random_)
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            cases.append([text, ids, tokenizer.decode(ids, skip_special_tokens=False)])
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        with open(f"{folder}/{name}.cases", "w", encoding="utf-8") as file:
            json.dump(cases, file, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
