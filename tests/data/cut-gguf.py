#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a GGUF file to the experts of some layers: cut-gguf.py SOURCE TARGET LAYER...

Keeps every metadata key byte for byte (so the layer count still says how many layers the whole model
has) and the tensors blk.LAYER.ffn_{gate,up,down}_exps.*, in the order and the bytes of the source; all
other tensors are dropped and the offsets are written anew. Only little-endian GGUF version 3.
"""
import re
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT32 = 8, 9, 4
EXPERT = re.compile(r"blk\.(\d+)\.ffn_(gate|up|down)_exps\.(weight|bias)")


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip_value(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element == ARRAY:
                sys.exit("nested arrays are not GGUF")
            for _ in range(count):
                self.skip_value(element)
        else:
            self.at += SIZES[kind]


def cut(source, target, layers):
    with open(source, "rb") as file:
        reader = Reader(file.read())
    if reader.number("I") != 0x46554747 or reader.number("I") != 3:
        sys.exit(f"{source}: not a little-endian GGUF version 3 file")
    n_tensors, n_keys, alignment = reader.number("Q"), reader.number("Q"), 32
    keys_begin = reader.at
    for _ in range(n_keys):
        key, kind = reader.text(), reader.number("I")
        if key == "general.alignment" and kind == UINT32:
            alignment = struct.unpack_from("<I", reader.data, reader.at)[0]
        reader.skip_value(kind)
    keys = reader.data[keys_begin:reader.at]
    tensors = []
    for _ in range(n_tensors):
        name = reader.text()
        dims = [reader.number("Q") for _ in range(reader.number("I"))]
        tensors.append((name, dims, reader.number("I"), reader.number("Q")))
    begin = -(-reader.at // alignment) * alignment
    # A tensor's padding up to the next one goes with it: its exact size needs no table of types here.
    edges = sorted(offset for _, _, _, offset in tensors) + [len(reader.data) - begin]
    kept = []
    for name, dims, kind, offset in tensors:
        match = EXPERT.fullmatch(name)
        if match and int(match[1]) in layers:
            end = edges[edges.index(offset) + 1]
            kept.append((name, dims, kind, reader.data[begin + offset:begin + end]))
    header = struct.pack("<IIQQ", 0x46554747, 3, len(kept), n_keys) + keys
    body = b""
    for name, dims, kind, content in kept:
        header += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        header += b"".join(struct.pack("<Q", dim) for dim in dims)
        header += struct.pack("<IQ", kind, len(body))
        body += content + bytes(-len(content) % alignment)
    header += bytes(-len(header) % alignment)
    with open(target, "wb") as file:
        file.write(header + body)


if len(sys.argv) < 4:
    sys.exit(__doc__)
cut(sys.argv[1], sys.argv[2], {int(layer) for layer in sys.argv[3:]})
