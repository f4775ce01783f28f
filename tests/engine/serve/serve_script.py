# SPDX-License-Identifier: Apache-2.0
"""A model that says what it is told to: serve_script.py FILE [FIELD=NUMBER]... Its layer adds nothing and each token's row of the
output is the embedding of the token that it follows, so the last token of a prompt decides all of the answer:
SCRIPTS has what comes behind each of them. The bytes of a prompt are tokens; a script's pieces are others."""
import random
import struct
import sys

SIZE = 256
END = 257
# By the last byte of a prompt.
SCRIPTS = {
    "a": ["The ", "answer", " is ", b"\xc3", b"\xa9 ", "forty-two", "."],
    "r": ["<think>\n", "I won", "der.", "\n</think>\n\n", "So ", "be it", "!"],
    "c": ["<think>", "Where?", "</think>", "Let me ", "see.", "\n<tool_call>\n", '{"name": "weather", ',
          '"arguments": {"pla', 'ce": "Par', 'is"}}', "\n</tool_call>", "\n<tool_call>\n{", '"name": "time", "arg',
          'uments": {}}\n', "</tool_call>"],
    "b": ["Both", ": <tool_call>", '{"name": "time", "arguments": {"zone": "UTC"}}', "</tool_call>\n", "and ", "text."],
    "p": ["<tool_call>{", '"name": "patch", "argu', 'ments": {"input": "*** Be', 'gin\\n+\\"x\\""}}', "</tool_call>\r"],
    "s": ["one ", "two ", "thr", "ee ST", "OP four", " five"],
    "t": ["<thi", "nk>Al", "one.", "</thi", "nk>\n"],  # and nothing else
    "h": ["hold ", "on <tool", "_"],  # which might become a call
    "l": ["la "],  # forever
    "<|fim_middle|>": ["the ", "gap"],
}
LOOPS = "l"

CALLS = [("call", "weather", '{"place": "Paris"}'), ("call", "time", "{}")]
# What a model says that was asked so, in blocks.
SAID = {"a": [("text", "The answer is \u00e9 forty-two.")],
        "r": [("thinking", "I wonder."), ("text", "So be it!")],
        "c": [("thinking", "Where?"), ("text", "Let me see.")] + CALLS,
        "t": [("thinking", "Alone."), ("text", "Alone.")],
        "b": [("text", "Both:"), ("call", "time", '{"zone": "UTC"}'), ("text", "\nand text.")]}


def byte_letters():
    """The letters by which vocabularies of bytes write bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return {b: chr(b) if b in plain else chr(next(others)) for b in range(256)}


def make_vocabulary():
    letters, tokens, follows = byte_letters(), [], {}
    tokens += [letters[b] for b in range(256)] + ["<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    for byte, pieces in SCRIPTS.items():
        before = tokens.index(byte) if len(byte) > 1 else ord(byte)
        for piece in pieces:
            piece = piece.encode() if isinstance(piece, str) else piece
            if len(piece) > 1:
                tokens.append("".join(letters[b] for b in piece))
            follows[before] = before = len(tokens) - 1 if len(piece) > 1 else piece[0]
        follows[before] = before if byte in LOOPS else END
    assert len(set(tokens)) == len(tokens), "each piece must be a token of its own"
    return tokens, follows


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return text(name) + struct.pack("<IB", 7, value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    if isinstance(value, int):
        return text(name) + struct.pack("<II", 4, value)
    kind = 8 if not value or isinstance(value[0], str) else 5
    data = b"".join(text(v) if kind == 8 else struct.pack("<i", v) for v in value)
    return text(name) + struct.pack("<IIQ", 9, kind, len(value)) + data


def matrix(rows):
    """bfloat16 has all small whole numbers."""
    return b"".join(struct.pack("<f", x)[2:] for row in rows for x in row)


def make_rows(tokens):
    rng = random.Random(7)
    return [[rng.choice((-1.0, 1.0)) for _ in range(SIZE)] for _ in tokens]


def write(path, **more):
    tokens, follows = make_vocabulary()
    embedding = make_rows(tokens)
    output = [[0.0] * SIZE for _ in tokens]
    for before, after in follows.items():
        output[after] = [x + y for x, y in zip(output[after], embedding[before])]
    zero, one = matrix([[0.0] * SIZE]) * SIZE, struct.pack("<f", 1.0) * SIZE
    tensors = [("token_embd.weight", (SIZE, len(tokens)), matrix(embedding)), ("output_norm.weight", (SIZE,), one),
               ("output.weight", (SIZE, len(tokens)), matrix(output))]
    tensors += [("blk.0.%s_norm.weight" % name, (SIZE,), one) for name in ("attn", "ffn")]
    tensors += [("blk.0.%s.weight" % name, (SIZE, SIZE), zero)
                for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    fields = {"general.architecture": "llama", "general.name": "script", "llama.block_count": 1,
              "llama.context_length": 4096, "llama.embedding_length": SIZE, "llama.feed_forward_length": SIZE,
              "llama.attention.head_count": 4, "llama.attention.head_count_kv": 4, "llama.rope.dimension_count": 64,
              "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": len(tokens),
              "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
              "tokenizer.ggml.token_type": [3 if t.startswith("<|") else 1 for t in tokens],
              "tokenizer.ggml.merges": [], "tokenizer.ggml.eos_token_id": END, **more}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(field(name, value) for name, value in fields.items())
    at = 0
    for name, shape, data in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
        head += struct.pack("<IQ", 0 if len(shape) == 1 else 30, at)
        at += len(data) + -len(data) % 32
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for _, _, data in tensors:
            file.write(data + bytes(-len(data) % 32))


if __name__ == "__main__":
    fields = dict(argument.split("=") for argument in sys.argv[2:])
    write(sys.argv[1], **{name: True if value == "true" else int(value) for name, value in fields.items()})
