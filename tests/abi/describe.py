# SPDX-License-Identifier: Apache-2.0
"""The ABI of a library as abidw sees it, a fact a line:

    function kt_wait: enum kt_status (struct kt_context *, uint64_t, struct kt_error *)
    struct kt_error: 1024 bytes
    struct kt_error.status: @0 enum kt_status
    enum kt_status.KT_OK: 0

Facts are those of exported functions, and of the types that can be reached from exported functions and
variables and that a public header defines: others are known to the library only."""
import re
import subprocess
import xml.etree.ElementTree as xml


class Abi:
    def __init__(self, root, public):
        self.public = public
        self.types = {node.get("id"): node for node in root.iter() if node.get("id")}
        self.facts = {}
        self.seen = set()

    def note(self, key, value):
        self.facts[key] = value

    def parameters(self, node):
        names = ["..." if p.get("is-variadic") else self.spell(p.get("type-id")) for p in node.findall("parameter")]
        return ", ".join(names) or "void"

    def spell(self, identity):
        """The type's name, with what it is made of noted."""
        node = self.types[identity]
        kind, name = node.tag, node.get("name")
        if kind == "type-decl":
            return name
        if kind == "typedef-decl":
            if name.startswith("kt_") and name not in self.seen:
                self.seen.add(name)
                self.note(f"typedef {name}", self.spell(node.get("type-id")))
            return name
        if kind == "qualified-type-def":
            words = [word for word in ("const", "volatile", "restrict") if node.get(word) == "yes"]
            target = self.types[node.get("type-id")]
            inner = self.spell(node.get("type-id"))
            return f"{inner} {' '.join(words)}" if target.tag == "pointer-type-def" else f"{' '.join(words)} {inner}"
        if kind == "pointer-type-def":
            inner = self.spell(node.get("type-id"))
            if self.types[node.get("type-id")].tag == "function-type":
                return inner
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if kind == "function-type":
            return f"{self.spell(node.find('return').get('type-id'))} (*)({self.parameters(node)})"
        if kind == "array-type-def":
            lengths = "".join(f"[{part.get('length')}]" for part in node.findall("subrange"))
            return self.spell(node.get("type-id")) + lengths
        if kind in ("class-decl", "union-decl"):
            word = "union" if kind == "union-decl" else "struct"
            self.describe(node, f"{word} {name}")
            return f"{word} {name}"
        if kind == "enum-decl":
            self.describe_enum(node, f"enum {name}")
            return f"enum {name}"
        raise SystemExit(f"describe.py: does not know <{kind}> of abidw")

    def describe(self, node, name):
        if name in self.seen or name not in self.public or not node.get("size-in-bits"):
            return
        self.seen.add(name)
        self.note(name, f"{int(node.get('size-in-bits')) // 8} bytes")
        for member in node.findall("data-member"):
            variable = member.find("var-decl")
            offset = int(member.get("layout-offset-in-bits", "0")) // 8
            self.note(f"{name}.{variable.get('name')}", f"@{offset} {self.spell(variable.get('type-id'))}")

    def describe_enum(self, node, name):
        if name in self.seen:
            return
        self.seen.add(name)
        for value in node.findall("enumerator"):
            self.note(f"{name}.{value.get('name')}", value.get("value"))

    def exports(self, root):
        # abidw links some functions to their symbols and some not: names do.
        symbols = {symbol.get("name") for symbol in root.iter("elf-symbol")}
        for node in root.iter("function-decl"):
            if node.get("name") in symbols:
                result = self.spell(node.find("return").get("type-id"))
                self.note(f"function {node.get('name')}", f"{result} ({self.parameters(node)})")
        for node in root.iter("var-decl"):
            if node.get("name") in symbols:
                self.spell(node.get("type-id"))
        missing = [name for name in symbols
                   if f"function {name}" not in self.facts and not name.startswith("kt_plugin_")]
        if missing:
            raise SystemExit(f"abidw does not describe {' '.join(sorted(missing))}")


def describe(library, headers):
    """The facts of a library, {"function kt_wait": "enum kt_status (...)"}."""
    public = set()
    for header in headers:
        with open(header, encoding="utf-8") as text:
            public |= {" ".join(match) for match in re.findall(r"^(struct|union|enum) (\w+) \{", text.read(), re.M)}
    output = subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", library],
                            check=True, stdout=subprocess.PIPE).stdout
    root = xml.fromstring(output)
    abi = Abi(root, public)
    abi.exports(root)
    if not any(key.startswith("struct ") for key in abi.facts):
        raise SystemExit(f"{library}: no types in it: build with debug information (CFLAGS with -g)")
    return abi.facts
