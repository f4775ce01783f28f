#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a safetensors model to the experts of some layers: cut-safetensors.py SOURCE TARGET FILES LAYER...

SOURCE is a folder with config.json and model.safetensors. TARGET, made anew, gets the same config.json
(so it still says how many layers the whole model has) and the tensors ...layers.LAYER.*experts.* in FILES
files: one model.safetensors, or several with the index that says which holds what.
"""
import json
import os
import re
import shutil
import struct
import sys

EXPERT = re.compile(r".*layers\.(\d+)\..*experts\..*")


def read(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        return header, file.read()


def write(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, entry, content in tensors:
        header[name] = {"dtype": entry["dtype"], "shape": entry["shape"],
                        "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def cut(source, target, files, layers):
    header, body = read(os.path.join(source, "model.safetensors"))
    metadata = header.pop("__metadata__", {})
    tensors = []
    for name, entry in header.items():
        match = EXPERT.fullmatch(name)
        if match and int(match[1]) in layers:
            begin, end = entry["data_offsets"]
            tensors.append((name, entry, body[begin:end]))
    os.makedirs(target)
    shutil.copy(os.path.join(source, "config.json"), target)
    if files == 1:
        write(os.path.join(target, "model.safetensors"), tensors, metadata)
        return
    index = {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = tensors[i * len(tensors) // files:(i + 1) * len(tensors) // files]
        write(os.path.join(target, name), part, metadata)
        index.update((tensor, name) for tensor, _, _ in part)
    total = sum(len(content) for _, _, content in tensors)
    with open(os.path.join(target, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, file, indent=1)
        file.write("\n")


if len(sys.argv) < 5:
    sys.exit(__doc__)
cut(sys.argv[1], sys.argv[2], int(sys.argv[3]), {int(layer) for layer in sys.argv[4:]})
