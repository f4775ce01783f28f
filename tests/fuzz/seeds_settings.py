#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds_settings.py SOURCE FOLDER DICTIONARY - the configurations of all families as seeds of fuzz_settings: their
config.json as it is, and what their tables say of GGUF metadata, with numbers that are about right. The dictionary has
the names of all settings that the engine asks for."""
import json
import pathlib
import re
import struct
import sys

TYPES = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}
USUAL = {"H": "hidden_size", "LAYERS": "num_hidden_layers", "I": "moe_intermediate_size", "N": "intermediate_size"}


def lines_of(data, family):
    """The lines of a table and of those that it includes."""
    path = data / family
    for line in (path / "model" if path.is_dir() else path).read_text().splitlines():
        words = line.split()
        if words[:1] == ["include"]:
            yield from lines_of(data, words[1])
        elif words:
            yield words


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def number(word, config, form):
    name = word.split("+")[0]
    value = config.get(USUAL.get(name, name), name)
    try:
        return struct.pack(form, bool(int(value)) if form == "<?" else float(value) if form == "<f" else int(value))
    except (TypeError, ValueError, struct.error):
        return struct.pack(form, 4)


def gguf(words, config, architecture):
    keys = [text("general.architecture") + struct.pack("<I", 8) + text(architecture)]
    for line in words:
        if line[0] != "key" or len(line) < 4 or line[1] not in TYPES:
            continue
        kind, form = TYPES[line[1]]
        keys.append(text(f"{architecture}.{line[2]}") + struct.pack("<I", kind) + number(line[3], config, form))
    tensor = text("token_embd.weight") + struct.pack("<IQIQ", 1, 4, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor
    return head + bytes(-len(head) % 32) + bytes(16)


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    data = source / "tests/data/families"
    for path in sorted(data.glob("*/config.json")):
        family, config = path.parent.name, json.loads(path.read_text())
        (folder / f"seed-{family}-json").write_text(json.dumps(config))
        words = list(lines_of(data, family))
        architecture = next((line[1] for line in words if line[0] == "arch"), None)
        if architecture:
            (folder / f"seed-{family}-gguf").write_bytes(gguf(words, {**config, **config.get("text_config", {})}, architecture))
    names = set()
    for path in (source / "tools/engine/model/config").glob("*.c"):
        names.update(re.findall(r'"([a-z_0-9./]{3,60})"', path.read_text()))
    pathlib.Path(sys.argv[3]).write_text("".join(f'"{name}"\n' for name in sorted(names)))


if __name__ == "__main__":
    main()
