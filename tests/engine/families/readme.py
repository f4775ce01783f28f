#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of families in README.md, made of the tables of tests/data/families.

readme.py SOURCE            compares: exit status 1 and the table if README.md has another one
readme.py SOURCE --update   writes it
"""
import collections
import json
import pathlib
import re
import sys

MARKS = "<!-- families: tests/engine/families/readme.py -->", "<!-- end of families -->"
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts")


def words(path, folder):
    """Lines of a table and of those that it includes."""
    for line in path.read_text().splitlines():
        if line.startswith("include "):
            yield from words(folder / line.split()[1], folder)
        elif line and not line.startswith("#"):
            yield line.split()


def read(folder):
    rows = collections.defaultdict(lambda: {"arch": set(), "experts": False, "errors": 0, "models": []})
    for path in sorted(folder.glob("*/model")):
        config = json.loads((path.parent / "config.json").read_text())
        row = rows[config["architectures"][0]]
        text = config.get("text_config", config)
        lines = list(words(path, folder))
        row["arch"].update(line[1] for line in lines[:60] if line[0] == "arch" and line[1] != "none")
        row["experts"] = row["experts"] or any((text.get(key) or 0) > 0 for key in EXPERTS)
        row["errors"] += sum(line[0] == "error" for line in lines)
        row["models"].append(path.parent.name)
    return rows


def make(folder):
    table = ["| Class in config.json | Architecture in GGUF | Experts | Tiny models | Errors |", "|:--|:--|:--|:--|--:|"]
    for name, row in sorted(read(folder).items(), key=lambda item: item[0].lower()):
        arch = ", ".join("`%s`" % arch for arch in sorted(row["arch"])) or "-"
        table.append("| `%s` | %s | %s | %s | %d |" % (
            name, arch, "yes" if row["experts"] else "no", ", ".join(row["models"]), row["errors"]))
    return "\n".join(table)


def main():
    source = pathlib.Path(sys.argv[1])
    readme = source / "README.md"
    text = readme.read_text()
    made = "%s\n%s\n%s" % (MARKS[0], make(source / "tests/data/families"), MARKS[1])
    new = re.sub(re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1]), lambda _: made, text, flags=re.S)
    if MARKS[0] not in text:
        sys.exit("README.md: it has no place for the table of families")
    if sys.argv[2:] == ["--update"]:
        readme.write_text(new)
    elif new != text:
        print(made)
        sys.exit("README.md: its table of families is another one; tests/engine/families/readme.py SOURCE --update")


main()
