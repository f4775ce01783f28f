#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema_suite.py SUITE ENGINE [FILE ...]: what a constraint makes of the JSON-Schema-Test-Suite.

SUITE is its folder for draft 2020-12, as the source distribution of the Python package jsonschema has it
(json/tests/draft2020-12). ENGINE is libktengine.so:TOKENIZER.json, llguidance or xgrammar. Each schema is refused or
enforced. What is enforced must accept the suite's valid instances, with members in any one order, and no other
instance; and what random walks through it write must be valid, as the package jsonschema judges."""
import itertools
import json
import os
import random
import sys

try:
    import jsonschema
except ImportError:
    print("SKIP: Python has no package jsonschema")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engine", "grammar"))
from compare_jsonschema import for_python, walk  # noqa: E402
from grammar_engine import Engine  # noqa: E402

# Words that walks may need, so that they come to an end; and bytes.
TOKENS = [bytes([i]) for i in range(256)]
CLOSERS = [b'"', b"}", b"]"]


class Ours:
    def __init__(self, where):
        library, tokenizer = where.split(":")
        self.engine = Engine(library, tokenizer)
        self.bytes = {text[0]: i for i, text in self.engine.tokens.items() if len(text) == 1}

    def compile(self, schema):
        try:
            return self.engine.grammar(schema), None
        except ValueError as problem:
            return None, str(problem)

    def accepts(self, grammar, text):
        constraint = self.engine.constraint(grammar)
        done = all(self.engine.accept(constraint, self.bytes[byte]) for byte in text)
        done = done and self.engine.lib.kt_constraint_place(constraint) != 0
        self.engine.lib.kt_constraint_destroy(constraint)
        return done

    def walk(self, r, grammar):
        return walk(self.engine, r, grammar, None)


class Llguidance:
    """Its masks are of 256 tokens, the bytes, and one that ends."""

    def __init__(self):
        import llguidance

        class Tokenizer:
            eos_token_id, bos_token_id, unk_token_id = 256, None, None
            tokens = TOKENS + [b"<end>"]
            special_token_ids = [256]

            def __call__(self, text):
                return list(text.encode() if isinstance(text, str) else text)
        self.lib = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))

    def compile(self, schema):
        try:
            grammar = self.lib.LLMatcher.grammar_from_json_schema(schema)
        except ValueError as problem:
            return None, str(problem)
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        return (None, matcher.get_error()) if matcher.is_error() else (grammar, None)

    def accepts(self, grammar, text):
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        return all(matcher.consume_token(byte) for byte in text) and matcher.is_accepting()

    def walk(self, r, grammar):
        matcher, text = self.lib.LLMatcher(self.tokenizer, grammar), b""
        while len(text) < 400:
            mask = matcher.compute_bitmask()
            allowed = [i for i in range(257) if mask[i // 8] >> (i % 8) & 1]
            if matcher.is_stopped() or not allowed or (256 in allowed and r.random() < 0.4):
                return text
            token = choose(r, allowed, len(text))
            if token == 256:
                return text
            matcher.consume_token(token)
            text += bytes([token])
        return None


class Xgrammar:
    def __init__(self):
        import numpy
        import xgrammar
        self.lib, self.numpy = xgrammar, numpy
        info = xgrammar.TokenizerInfo(TOKENS + [b"<end>"], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[256])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, 257)

    def compile(self, schema):
        try:
            return self.compiler.compile_json_schema(json.dumps(schema), strict_mode=False), None
        except Exception as problem:  # noqa: BLE001
            return None, str(problem)

    def accepts(self, grammar, text):
        matcher = self.lib.GrammarMatcher(grammar)
        return all(matcher.accept_token(byte) for byte in text) and matcher.accept_token(256)

    def walk(self, r, grammar):
        matcher, text = self.lib.GrammarMatcher(grammar), b""
        while len(text) < 400:
            matcher.fill_next_token_bitmask(self.mask)
            bits = self.mask.numpy()[0]
            allowed = [i for i in range(257) if bits[i // 32] >> (i % 32) & 1]
            if matcher.is_terminated() or not allowed or (256 in allowed and r.random() < 0.4):
                return text
            token = choose(r, allowed, len(text))
            if token == 256:
                return text
            matcher.accept_token(token)
            text += bytes([token])
        return None


def choose(r, allowed, step):
    ends = [i for i in allowed if bytes([i & 255]) in CLOSERS and i < 256]
    return r.choice(ends) if ends and r.random() < 0.3 + step / 100 else r.choice(allowed)


def orders(value):
    """The value with the members of its objects in each order, some of them."""
    if isinstance(value, list):
        made = [[]]
        for one in value:
            made = [done + [other] for done in made for other in itertools.islice(orders(one), 24)][:200]
        yield from made
    elif isinstance(value, dict):
        for names in itertools.islice(itertools.permutations(value), 720):
            made = [{}]
            for name in names:
                made = [dict(done, **{name: other}) for done in made
                        for other in itertools.islice(orders(value[name]), 24)][:200]
            yield from made
    else:
        yield value


def accepted(engine, grammar, value):
    return any(engine.accepts(grammar, json.dumps(one, ensure_ascii=False, separators=form).encode("utf-8", "replace"))
               for one in itertools.islice(orders(value), 800) for form in ((",", ":"), (", ", ": ")))


def measure(engine, suite, files, shows):
    counts = dict.fromkeys(("schemas", "refused", "enforced", "walks", "wrong walks", "cut", "valid", "valid refused",
                            "invalid", "invalid accepted", "wrong schemas"), 0)
    kind, r = jsonschema.Draft202012Validator, random.Random(1)
    for name in files:
        for group in json.load(open(os.path.join(suite, name))):
            schema = group["schema"]
            counts["schemas"] += 1
            grammar, problem = engine.compile(schema)
            is_void = problem and "nothing can fit" in problem or problem and "Unsatisfiable" in problem
            if grammar is None:
                counts["refused"] += 1
                shows > 1 and print("refused", name, group["description"], "--", problem[:150])
                if is_void and any(test["valid"] for test in group["tests"]):
                    print("WRONGLY VOID", name, group["description"], json.dumps(schema))
                continue
            counts["enforced"] += 1
            wrong = False
            checks = name.startswith("optional/format") or name == "format.json"
            validator = kind(for_python(schema), format_checker=kind.FORMAT_CHECKER if checks else None)
            for _ in range(6):
                text = engine.walk(r, grammar)
                if text is None:
                    counts["cut"] += 1
                    continue
                counts["walks"] += 1
                try:
                    good = validator.is_valid(json.loads(text))
                except (ValueError, TypeError):
                    good = False
                except Exception:  # noqa: BLE001 -- a reference that jsonschema would have to fetch
                    continue
                if not good:
                    wrong = True
                    counts["wrong walks"] += 1
                    shows and print("WALK", name, group["description"], json.dumps(schema)[:300], text[:200])
            for test in group["tests"]:
                what = "valid" if test["valid"] else "invalid"
                counts[what] += 1
                if accepted(engine, grammar, test["data"]) != test["valid"]:
                    wrong = True
                    counts["valid refused" if test["valid"] else "invalid accepted"] += 1
                    shows and print(what.upper(), name, "|", group["description"], "|", test["description"],
                                    json.dumps(schema)[:300], json.dumps(test["data"])[:200])
            counts["wrong schemas"] += wrong
    return counts


def main():
    suite, which, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    if not os.path.isfile(os.path.join(suite, "not.json")):
        print("SKIP: %s has no JSON-Schema-Test-Suite" % suite)
        sys.exit(77)
    try:
        engine = {"llguidance": Llguidance, "xgrammar": Xgrammar}.get(which, lambda: Ours(which))()
    except ImportError as problem:
        print("SKIP: Python has no package", problem.name)
        sys.exit(77)
    everything = sorted(name for name in os.listdir(suite) if name.endswith(".json"))
    everything += sorted("optional/format/" + name for name in os.listdir(os.path.join(suite, "optional", "format")))
    print(measure(engine, suite, files or everything, int(os.environ.get("SHOWS", "0"))))


if __name__ == "__main__":
    main()
