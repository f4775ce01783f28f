# SPDX-License-Identifier: Apache-2.0
"""GGUF files of a vocabulary only."""
import struct

KEY = "tokenizer.ggml."
U32, I32, F32, BOOL, TEXT, ARRAY = 4, 5, 6, 7, 8, 9
FORMS = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<B"}


def byte_names():
    """GPT-2's character for each byte."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def text_of(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def write(path, entries):
    """A GGUF file of metadata only."""
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)))
        for key, (kind, value) in entries.items():
            file.write(text_of(key))
            if isinstance(value, list):
                file.write(struct.pack("<IIQ", ARRAY, kind, len(value)))
                file.write(b"".join(text_of(v) if kind == TEXT else struct.pack(FORMS[kind], v) for v in value))
            else:
                file.write(struct.pack("<I", kind))
                file.write(text_of(value) if kind == TEXT else struct.pack(FORMS[kind], value))
