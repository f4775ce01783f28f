#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_jsonschema.py LIBRARY TOKENIZER CASES [SEED]

Grammars of libktengine beside the Python package jsonschema: what random walks through the masks of random schemas
write is valid, and valid documents are accepted token by token, as they are and with blanks."""
import json
import math
import random
import re
import sys

import jsonschema

from grammar_engine import BLANKS, Engine, accepts

KEYS = ("a", "ab", "b", "id", "name", "x y", "é", "日本", 'q"q', "tab\t", "back\\slash", "")
PATTERNS = {"^[a-z]+$": ("a", "xyz"), "^(ab|cd)*$": ("", "ab", "abcd"), "^\\d{3}-\\d{4}$": ("555-1234",),
            "^[A-Z][^\\n\"]{0,5}$": ("Hello", "Aé"), "foo": ("foo", "a foo b", "xfoo"), "^a.c$": ("abc", "a日c"),
            "^(?:[0-9a-f]{2}:){2}[0-9a-f]{2}$": ("00:ff:1a",), "^\\s*\\w+\\s*$": (" a ", "b"), "^x|y$": ("x1", "zy"),
            "^[à-ÿ]{2}$": ("éà",), "^\\{\\}[\\]\\\\/]$": ("{}]", "{}\\")}
KEY_PATTERNS = {"^x-": ("x-a", "x-", "x-日"), "_id$": ("a_id", "_id"), "^[a-z]+$": ("abc", "z", "id"), "1": ("k1", "1é"),
                "^a": ("a", "ab"), '["\\\\]': ('q"q', "\\"), "^$": ("",), "^[^a-z]": ("é", "A", "\x01")}
FORMATS = {"date": "2024-02-29", "time": "12:34:56Z", "date-time": "2000-02-29T23:59:59.5+01:00",
           "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "192.168.0.255", "email": "a.b@example.org"}
STRINGS = ("", "a", "hello world", "é", "日本語", "\U0001f600", 'q"uote', "back\\slash", "new\nline", "\x01", "</div>", "x" * 30)


# ---- schemas, each with a function that draws a valid document ----

def string(r):
    kind = r.randrange(5)
    if kind == 0:
        pattern = r.choice(list(PATTERNS))
        return {"type": "string", "pattern": pattern}, lambda: r.choice(PATTERNS[pattern])
    if kind == 1:
        name = r.choice(list(FORMATS))
        return {"type": "string", "format": name}, lambda: FORMATS[name]
    if kind == 2:
        low = r.randrange(4)
        high = low + r.randrange(5)
        schema = {"type": "string", "minLength": low, "maxLength": high}
        if r.random() < 0.3:
            del schema["maxLength"]
        letters = 'aé日\U0001f600"\\\n z'
        return schema, lambda: "".join(r.choice(letters) for _ in range(r.randint(low, high)))
    if kind == 3:
        low = r.randrange(1, 4)
        high = low + r.randrange(4)
        return ({"type": "string", "pattern": "^([a-c]|xy)*$", "minLength": low, "maxLength": high},
                lambda: "".join(r.choice("abc") for _ in range(r.randint(low, high))))
    return {"type": "string"}, lambda: r.choice(STRINGS)


def multiple(r):
    step, low = r.choice((2, 3, 7, 10, 25, 64, 999)), r.choice((0, -50, 12, 1000))
    high = low + r.choice((step, 100, 12345)) + step
    schema = {"type": r.choice(("integer", "number")), "multipleOf": step, "minimum": low, "maximum": high}
    return schema, lambda: r.choice(range(-(-low // step) * step, high + 1, step))


def decimal(r):
    low, high = sorted((r.choice((0, -1.25, 3, 0.1, 99.5, -1000, 12345.678)), r.choice((0.3, 7, 100, -0.5, 1e6, -1e3))))
    if low == high:
        high += 1
    schema = {"type": "number", r.choice(("minimum", "exclusiveMinimum")): low,
              r.choice(("maximum", "exclusiveMaximum")): high}
    if r.random() < 0.3:
        del schema[list(schema)[r.choice((1, 2))]]
    inside = low + (high - low) / 2
    return schema, lambda: json.loads("%.6f" % inside)


def integer(r):
    schema = {"type": "integer"}
    low, high = -10 ** 6, 10 ** 6
    if r.random() < 0.5:
        low = r.choice((0, 1, 5, -3, -1234, 99, 1000, 12345678))
        schema[r.choice(("minimum", "minimum", "exclusiveMinimum"))] = low
        low += "exclusiveMinimum" in schema
        high = low + 10 ** 6
    if r.random() < 0.5:
        high = low + r.choice((0, 1, 9, 100, 12345))
        schema["maximum"] = high
    return schema, lambda: r.choice((low, high, r.randint(low, high)))


def array(r, depth):
    inner, draw = make(r, depth + 1)
    low = r.randrange(3)
    high = low + r.randrange(3)
    schema = {"type": "array", "items": inner}
    prefix = [make(r, depth + 1) for _ in range(r.randrange(3))] if r.random() < 0.3 else []
    if prefix:
        schema["prefixItems"] = [one for one, _ in prefix]
    if r.random() < 0.6:
        schema["minItems"] = low
    if r.random() < 0.6:
        schema["maxItems"] = high
    return schema, lambda: [prefix[i][1]() if i < len(prefix) else draw() for i in range(r.randint(low, high))]


def object_(r, depth):
    names = r.sample(KEYS, r.randrange(5))
    members = {name: make(r, depth + 1) for name in names}
    required = [name for name in names if r.random() < 0.5]
    schema = {"type": "object", "properties": {name: one for name, (one, _) in members.items()}, "required": required}
    other = None
    if r.random() < 0.6:
        schema["additionalProperties"] = False
    elif r.random() < 0.5:
        schema["additionalProperties"], other = make(r, depth + 1)

    def draw():
        made = {name: one() for name, (_, one) in members.items() if name in required or r.random() < 0.6}
        if other and r.random() < 0.5:
            made.update((name, other()) for name in ("zz", "a-", "nam") if name not in names)
        return made
    return schema, draw


def patterned(r, depth):
    """Keys by regular expressions, which may fit the same key and declared ones."""
    chosen = r.sample(sorted(KEY_PATTERNS), r.randrange(1, 4))
    values = {pattern: make(r, depth + 2) for pattern in chosen}
    fits = {name: [p for p in chosen if re.search(p, name)] for name in KEYS + sum(KEY_PATTERNS.values(), ())}
    schema = {"patternProperties": {pattern: one for pattern, (one, _) in values.items()}}
    names, other, drawn = r.sample(KEYS, r.randrange(3)), None, {p: draw for p, (_, draw) in values.items()}
    if names or r.random() < 0.5:
        schema["properties"] = {name: {"type": "integer"} for name in names}
        schema["required"] = [name for name in names if not fits[name] and r.random() < 0.5]
    if r.random() < 0.6:
        schema["additionalProperties"] = False
    elif r.random() < 0.5:
        schema["additionalProperties"], other = make(r, depth + 2)
    if r.random() < 0.5:
        schema["type"] = "object"

    def draw():
        made = {name: 3 for name in names if not fits[name] and (r.random() < 0.5 or name in schema["required"])}
        for name in r.sample(sorted(fits), 4):
            if name not in names and len(fits[name]) == 1:
                made[name] = drawn[fits[name][0]]()
            elif name not in names and not fits[name] and other:
                made[name] = other()
        return made
    return schema, draw


def both(r, depth):
    """allOf of two objects."""
    one, draw_one = make(r, depth + 1)
    two, draw_two = make(r, depth + 1)
    schema = {"allOf": [{"type": "object", "properties": {"one": one}, "required": ["one"]},
                        {"properties": {"two": two, "one": True}}]}
    if r.random() < 0.5:
        schema["description"] = "two at once"
    return schema, lambda: {"one": draw_one(), "two": draw_two()}


def choice(r, depth):
    parts = [make(r, depth + 1) for _ in range(r.randrange(1, 4))]
    if r.random() < 0.4:
        tagged = {"oneOf": [{"type": "object", "properties": {"kind": {"const": i}, "v": one},
                             "required": ["kind", "v"], "additionalProperties": False}
                            for i, (one, _) in enumerate(parts)]}

        def draw():
            i = r.randrange(len(parts))
            return {"kind": i, "v": parts[i][1]()}
        return tagged, draw
    return {"anyOf": [one for one, _ in parts]}, lambda: r.choice(parts)[1]()


def constant(r, depth):
    values = r.sample((1, -7, 2.5, "a", "abc", 'q"', "日本", None, True, [1, {"a": []}], {"k": [None, 0.1]}, 0.001),
                      r.randrange(1, 5))
    if r.random() < 0.3:
        return {"const": values[0]}, lambda: values[0]
    return {"enum": values}, lambda: r.choice(values)


def simple(r, depth):
    kind = r.choice(("boolean", "null", "number", "several"))
    if kind == "several":
        return {"type": ["string", "null", "boolean"]}, lambda: r.choice(("x", None, True))
    values = {"boolean": (True, False), "null": (None,), "number": (0, -1.5, 1e-7, 123456.789, 2e30, 7)}[kind]
    return {"type": kind}, lambda: r.choice(values)


def make(r, depth=0):
    if depth < 3 and r.random() < 0.6:
        return r.choice((array, object_, object_, patterned, both, choice))(r, depth)
    plain = r.choice((string, string, integer, multiple, decimal, None))
    return plain(r) if plain else r.choice((constant, simple))(r, depth)


TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
    "v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
    "all": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["v", "next"],
    "additionalProperties": False}}}


def draw_tree(r, depth=0):
    made = {"v": r.randrange(100), "next": None if depth > 3 or r.random() < 0.5 else draw_tree(r, depth + 1)}
    if r.random() < 0.3:
        made["all"] = [draw_tree(r, depth + 2) for _ in range(r.randrange(3) if depth < 3 else 0)]
    return made


# ---- the two directions ----

def walk(engine, r, grammar, schema, steps=400):
    """Tokens at random; those that end things are preferred, more and more."""
    constraint = engine.constraint(grammar)
    text = b""
    try:
        for step in range(steps):
            place = engine.lib.kt_constraint_place(constraint)
            if place == 2 or (place == 1 and r.random() < 0.4):
                break
            ids = engine.mask(constraint)
            assert ids, (schema, text)
            ids = [i for i in ids if engine.tokens.get(i)] or ids
            if r.random() < 0.2:  # the mask says what single questions say
                sample = r.sample(sorted(engine.tokens), 40) + r.sample(ids, min(10, len(ids)))
                known = set(ids)
                for i in sample:
                    assert engine.allows(constraint, i) == (i in known), (schema, text, engine.tokens[i])
            if r.random() < 0.3 + step / 100:
                ends = [i for i in ids if engine.tokens[i][-1:] in b'"}]' or len(engine.tokens[i]) == 1]
                ids = [i for i in ends if engine.tokens[i] in (b'"', b"}", b"]")] or ends or ids
            token = r.choice(ids)
            assert engine.accept(constraint, token)
            if token in engine.ends:
                assert engine.lib.kt_constraint_place(constraint) == 2
                break
            text += engine.tokens[token]
        else:
            return None
    finally:
        engine.lib.kt_constraint_destroy(constraint)
    return text


def split(engine, r, text, by_bytes):
    """As the tokenizer cuts a text, or at other places."""
    return [i for byte in text.encode() for i in (by_bytes[byte],)] if r.random() < 0.3 else engine.encode(text)


def for_python(schema):
    """The schema with its patterns as ECMA-262 means them, for re."""
    def pattern(text):
        for ecma, python in (("$", "\\Z"), ("\\d", "[0-9]"), ("\\w", "[A-Za-z0-9_]"), ("\\s", "[%s]" % BLANKS)):
            text = text.replace(ecma, python)
        return text
    if isinstance(schema, list):
        return [for_python(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: one if name in ("enum", "const") else for_python(one) for name, one in schema.items()}
    if isinstance(made.get("pattern"), str):
        made["pattern"] = pattern(made["pattern"])
    if "patternProperties" in made:
        made["patternProperties"] = {pattern(name): one for name, one in made["patternProperties"].items()}
    return made


def check(engine, r, schema, draw, by_bytes, counts):
    try:
        grammar = engine.grammar(schema)
    except ValueError as problem:
        counts["refused"] += 1
        assert "nothing can fit" in str(problem) or "could fit both" in str(problem) or \
            "together" in str(problem) or "two different" in str(problem) or \
            "whole numbers up to 1000" in str(problem), \
            (str(problem), schema)
        return
    kind = jsonschema.Draft202012Validator
    validator = kind(for_python(schema), format_checker=kind.FORMAT_CHECKER)
    for _ in range(3):
        text = walk(engine, r, grammar, schema)
        if text is None:
            counts["cut"] += 1
            continue
        counts["walks"] += 1
        try:
            document = json.loads(text)
        except ValueError:
            raise AssertionError((schema, text))
        problems = [problem.message for problem in validator.iter_errors(document)]
        assert not problems, (schema, text, problems)
    for _ in range(3):
        document = draw()
        if not validator.is_valid(document):  # alternatives that exclude each other, or maxItems below a prefix
            counts["invalid"] += 1
            continue
        for style in ({"separators": (",", ":")}, {}, {"indent": 2}):
            text = json.dumps(document, ensure_ascii=False, **style)
            wrong = accepts(engine, grammar, split(engine, r, text, by_bytes))
            assert wrong is None, (schema, text, wrong)
            counts["documents"] += 1
    engine.lib.kt_grammar_destroy(grammar)


# ---- bounds of numbers, and keywords of types that a value has not ----

def some_number(r, whole):
    """A number as it is written: few digits or many, large or small."""
    sign = "-" if r.random() < 0.4 else ""
    n = r.choice((1, 1, 2, 3, 9, 14, 15, 16, 17, 18, 19, 20, 25, 40))
    digits = str(r.randrange(10 ** n)) if r.random() < 0.6 else r.choice(("1" + "0" * (n - 1), "9" * n))
    digits = r.choice((digits, digits, "9223372036854775807", "9223372036854775808", "18446744073709551615", "0"))
    if whole or r.random() < 0.4:
        return sign + digits
    places = "0" * r.choice((0, 0, 1, 4, 20)) + str(r.randrange(10 ** r.choice((1, 2, 5, 16))))
    return sign + digits[:r.choice((1, 3, 14))].lstrip("0").rjust(1, "0") + "." + places


def some_bound(r, whole):
    text = some_number(r, whole)
    return r.choice((text, text, text + ("e-3" if "." in text or not whole else ".0"), "1e-16", "1.5e20", "-5e-324"))


def near(r, text, whole):
    """The number, or one beside it."""
    if "e" in text or r.random() < 0.3:
        return some_number(r, whole)
    if whole:
        return str(int(text.split(".")[0]) + r.choice((-1, 0, 1)))
    return text + r.choice(("", "", "0" if "." in text else ".0", "1" if "." in text else ".00000001"))


def check_bounds(engine, r, by_bytes, counts):
    """Texts of numbers, judged by jsonschema; and null, which fits where no type is asked for."""
    whole = r.random() < 0.5
    names = r.sample(("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"), r.randrange(1, 3))
    bounds = {name: some_bound(r, whole) for name in names}
    written = '{"type": "%s", %s}' % ("integer" if whole else "number",
                                      ", ".join('"%s": %s' % pair for pair in bounds.items()))
    validator = jsonschema.Draft202012Validator(json.loads(written))
    try:
        grammar = engine.grammar_of(written.encode())
    except ValueError as problem:
        counts["refused"] += 1
        assert "nothing can fit" in str(problem) or "one number as doubles" in str(problem), (str(problem), written)
        grammar = None
        if "doubles" in str(problem):
            return
    texts = [near(r, r.choice(list(bounds.values())), whole) for _ in range(8)] + [some_number(r, whole) for _ in range(8)]
    for text in texts:
        value = json.loads(text)
        if whole and text == "-0" or "." in text and abs(value) >= 1e15:
            continue  # not written so
        fits = validator.is_valid(value)
        accepted = grammar is not None and accepts(engine, grammar, [by_bytes[byte] for byte in text.encode()]) is None
        # Texts of many digits between a bound and the double next to it are left out.
        is_edge = not whole and fits and any(abs(value - float(bound)) <= math.ulp(float(bound)) for bound in bounds.values())
        assert accepted == fits or is_edge, (written, text, fits)
        counts["numbers"] += 1
    if grammar:
        engine.lib.kt_grammar_destroy(grammar)


UNMET = ('{"minLength": 2, "maxLength": 1}', '{"pattern": "^a$", "minLength": 2}', '{"format": "ipv4", "maxLength": 0}',
         '{"minimum": 2, "exclusiveMaximum": 2}', '{"minItems": 3, "maxItems": 2}',
         '{"format": "date", "minLength": 11, "nullable": true}', '{"type": ["string", "null"], "pattern": "^$", "minLength": 1}',
         '{"anyOf": [{"minLength": 1, "maxLength": 0}, {"type": "string", "pattern": "[]"}]}',
         '{"properties": {"b": false}, "required": ["b"]}', '{"items": false, "minItems": 1}',
         '{"allOf": [{"minimum": 3}, {"maximum": 1}]}', '{"type": ["integer", "null"], "minimum": 5, "maximum": 4}')


# What must not fit, depends on something, or is counted: walks must be valid.
KIND = {"properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}, "s": {"type": "string"}}, "type": "object"}
WALKED = (
    dict(KIND, **{"if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"required": ["n"]},
                  "else": {"not": {"required": ["n"]}}}),
    dict(KIND, dependentRequired={"kind": ["n"], "s": ["kind"]}, maxProperties=3, minProperties=1),
    dict(KIND, dependentSchemas={"n": {"properties": {"s": {"minLength": 2}}, "required": ["s"]}}, unevaluatedProperties=False),
    dict(KIND, **{"not": {"properties": {"n": {"minimum": 5}}, "required": ["n"]}, "propertyNames": {"maxLength": 4}}),
    {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}, {"type": "integer"}, {"minimum": 3}]},
    {"anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}}}],
     "type": "object", "unevaluatedProperties": {"type": "boolean"}},
    {"type": "array", "contains": {"type": "integer", "multipleOf": 3}, "minContains": 2, "maxContains": 3, "items": {"type": "integer"}},
    {"type": "array", "items": {"enum": [1, "1", None, [1], [2]]}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "null"}], "contains": {"type": "string"}, "unevaluatedItems": {"type": "boolean"}},
    {"type": "array", "not": {"items": {"type": "string"}}, "maxItems": 4},
    {"not": {"enum": ["a", 1, 2.5, None, True, {"a": 1}]}},
    {"type": "number", "not": {"anyOf": [{"type": "integer"}, {"minimum": 0.5, "maximum": 7}]}},
    {"type": "integer", "not": {"multipleOf": 3}, "minimum": -50},
    {"type": "string", "allOf": [{"pattern": "[0-9]"}, {"pattern": "[a-z]"}, {"not": {"pattern": "^a"}}], "minLength": 3, "maxLength": 6},
    {"type": "string", "format": "date", "pattern": "^2", "not": {"pattern": "-02-"}},
    {"minProperties": 1, "minItems": 1, "minLength": 1, "minimum": 1})


def check_walked(engine, r, counts):
    for schema in WALKED:
        kind = jsonschema.Draft202012Validator
        validator, grammar = kind(for_python(schema), format_checker=kind.FORMAT_CHECKER), engine.grammar(schema)
        for _ in range(4):
            text = walk(engine, r, grammar, schema)
            counts["walks" if text is not None else "cut"] += 1
            assert text is None or validator.is_valid(json.loads(text)), (schema, text)
        engine.lib.kt_grammar_destroy(grammar)


def check_unmet(engine, by_bytes):
    """Nothing of one type fits, but null does."""
    for written in UNMET:
        grammar = engine.grammar_of(written.encode())
        assert jsonschema.Draft202012Validator(json.loads(written)).is_valid(None), written
        assert accepts(engine, grammar, [by_bytes[byte] for byte in b"null"]) is None, written
        engine.lib.kt_grammar_destroy(grammar)


def main():
    library, tokenizer, cases = sys.argv[1], sys.argv[2], int(sys.argv[3])
    r = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    engine = Engine(library, tokenizer)
    by_bytes = {text[0]: i for i, text in engine.tokens.items() if len(text) == 1}
    counts = dict.fromkeys(("walks", "cut", "documents", "invalid", "refused", "numbers"), 0)
    check_unmet(engine, by_bytes)
    check_walked(engine, r, counts)
    check(engine, r, TREE, lambda: draw_tree(r), by_bytes, counts)
    for _ in range(cases):
        schema, draw = make(r)
        check(engine, r, schema, draw, by_bytes, counts)
        check_bounds(engine, r, by_bytes, counts)
    print(counts)
    return 0 if counts["walks"] > cases and counts["documents"] > cases else 1


if __name__ == "__main__":
    sys.exit(main())
