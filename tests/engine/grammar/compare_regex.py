#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_regex.py LIBRARY TOKENIZER PATTERNS [SEED]

Patterns of libktengine beside Python's re: of random expressions, written for both (ECMA-262 and Python differ in \\s, \\b,
'.', '$' and escapes), a string with characters of Unicode and ends of lines is accepted if and only if re finds the
expression in it; where bounds of the length are set, if it is as long, too. Masks say what single tokens say."""
import json
import random
import re
import sys
import unicodedata

from grammar_engine import BLANKS, Engine, accepts

LETTERS = "aab1Z_- .\n\r\t\"\\/\0\x0b\x1f\x7f\x85\xa0é\u00dfßЖ٣\u1680\u2003\u2028\u2029日\u3000\ufeff\U0001f600\U00010000\U0010ffff"
NO_BLANKS = ("\\0-\\x08\\x0e-\\x1f!-\\x9f\\xa1-\\u167f\\u1681-\\u1fff\\u200b-\\u2027\\u202a-\\u202e\\u2030-\\u205e"
             "\\u2060-\\u2fff\\u3001-\\ufefe\\uff00-\\U0010ffff")
DOT = "[^\\n\\r\\u2028\\u2029]"
CATEGORIES = ("L", "Lu", "Ll", "Nd", "N", "P", "S", "So", "Z", "Zs", "Cc", "Po", "Letter", "gc=Nd")
NAMES = {"Letter": "L", "gc=Nd": "Nd"}
HERE = {"^": "\\A", "$": "\\Z", "\\b": "(?:(?<=\\w)(?!\\w)|(?<!\\w)(?=\\w))",
        "\\B": "(?:(?<=\\w)(?=\\w)|(?<!\\w)(?!\\w))"}


def escape(code):
    return "\\U%08x" % code


def character(r):
    """One character, as either language writes it."""
    c = r.choice(LETTERS)
    code = ord(c)
    forms = ["\\u{%x}" % code]
    if code < 0x100:
        forms.append("\\x%02x" % code)
    if code < 0x10000:
        forms.append("\\u%04X" % code)
    else:
        forms.append("\\ud%03x\\ud%03x" % (0x800 + (code - 0x10000 >> 10), 0xc00 + (code - 0x10000 & 0x3ff)))
    if 0 < code < 27:
        forms.append("\\c" + chr(code + r.choice((64, 96))))
    if c in "\n\r\t\x0b":
        forms.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x0b": "\\v"}[c])
    if c in "./-\\\"_":
        forms.append("\\" + c)
    if c not in ".\\/-\0":
        forms += [c] * 3
    if c == "\0":
        forms = ["\\x00", "\\u0000"]
    return r.choice(forms), escape(code)


def category(r):
    name = r.choice(CATEGORIES)
    short = NAMES.get(name, name)
    fits = [c for c in set(LETTERS) if unicodedata.category(c).startswith(short)]
    return name, "".join(escape(ord(c)) for c in sorted(fits))


def class_(r):
    kind = r.random()
    if kind < 0.1:
        return r.choice((("[\\s\\S]", "[\\0-\\U0010ffff]"), ("[^]", "[\\0-\\U0010ffff]"), ("[^\\s]", "[" + NO_BLANKS + "]"),
                         ("[]", "(?!)"), ("[\\b]", "\\x08"), ("[^\\d\\D]", "(?!)")))
    ecma, python = "", ""
    for _ in range(r.randrange(1, 4)):
        one = r.random()
        if one < 0.3:
            name = r.choice("dDwWsS")
            ecma += "\\" + name
            python += {"s": BLANKS, "S": NO_BLANKS}.get(name, "\\" + name)
        elif one < 0.4:
            name, fits = category(r)
            ecma += "\\p{%s}" % name
            python += fits
        elif one < 0.6:
            first, last = sorted(r.sample("09azAZ\x01\x7f\xa0\xffЖ日\ufeff\U0001f600", 2))
            ecma += "\\u{%x}-\\u{%x}" % (ord(first), ord(last))
            python += escape(ord(first)) + "-" + escape(ord(last))
        else:
            a, b = character(r)
            if a in "^]-":
                continue
            ecma += a
            python += b
    if not ecma:
        return "a", "a"
    negated = "^" if r.random() < 0.4 else ""
    return "[%s%s]" % (negated, ecma), "[%s%s]" % (negated, python) if python else "[\\0-\\U0010ffff]" if negated else "(?!)"


def atom(r, depth):
    kind = r.random()
    if kind < 0.4:
        return character(r)
    if kind < 0.55:
        name = r.choice("dDwWsS.")
        return ("\\" + name if name != "." else "."), {"s": "[" + BLANKS + "]", "S": "[" + NO_BLANKS + "]",
                                                       ".": DOT}.get(name, "\\" + name)
    if kind < 0.6:
        name, fits = category(r)
        letter = r.choice("pP")
        return "\\%s{%s}" % (letter, name), \
            "[%s%s]" % ("^" if letter == "P" else "", fits) if fits else "(?!)" if letter == "p" else "[\\0-\\U0010ffff]"
    if kind < 0.8 or depth > 2:
        return class_(r)
    ecma, python = alternatives(r, depth + 1)
    return r.choice(("(", "(?:", "(?<n%d>" % r.randrange(10 ** 9))) + ecma + ")", "(?:" + python + ")"


def piece(r, depth):
    if r.random() < 0.12:
        here = r.choice(sorted(HERE))
        return here, HERE[here]
    ecma, python = atom(r, depth)
    if r.random() < 0.4:
        times = r.choice(("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{0}"))
        return ecma + times, "(?:" + python + ")" + times
    return ecma, python


def alternatives(r, depth=0):
    parts = []
    for _ in range(1 if r.random() < 0.7 else 2):
        pieces = [piece(r, depth) for _ in range(r.randrange(0 if depth else 1, 4))]
        if depth == 0 and r.random() < 0.4:
            pieces.insert(0, ("^", "\\A"))
        if depth == 0 and r.random() < 0.4:
            pieces.append(("$", "\\Z"))
        parts.append(("".join(e for e, _ in pieces), "".join(p for _, p in pieces)))
    return "|".join(e for e, _ in parts), "(?:" + "|".join(p for _, p in parts) + ")"


def mask_is_right(engine, r, constraint, context):
    known = set(engine.mask(constraint))
    for i in r.sample(engine.texts, 60) + r.sample(sorted(known), min(20, len(known))):
        assert engine.allows(constraint, i) == (i in known), (context, engine.tokens[i])


def walk(engine, r, grammar, context):
    """Bytes at random; what they write, None if they come to no end."""
    constraint, text = engine.constraint(grammar), b""
    for step in range(60):
        if engine.lib.kt_constraint_place(constraint) == 2:
            break
        if r.random() < 0.15:
            mask_is_right(engine, r, constraint, context + (text,))
        end = engine.by_bytes[0x22]
        order = ([end] if step > r.randrange(2, 20) else []) + r.sample(sorted(engine.by_bytes.values()), 256)
        token = next((i for i in order if engine.allows(constraint, i)), None)
        assert token is not None, context + (text,)
        assert engine.accept(constraint, token)
        text += engine.tokens[token]
    is_done = engine.lib.kt_constraint_place(constraint) == 2
    engine.lib.kt_constraint_destroy(constraint)
    return text if is_done else None


def looking_ahead(r):
    """An expression behind others that look ahead from the beginning."""
    ecma, python = "^", "\\A"
    for _ in range(r.randrange(1, 4)):
        inner, its = alternatives(r, 1)
        before = r.choice((("", ""), (".*", DOT + "*"), ("[^]*", "[\\0-\\U0010ffff]*")))
        kind = r.choice("=!")
        ecma += "(?%s%s(?:%s))" % (kind, before[0], inner) if "|" in inner else "(?%s%s%s)" % (kind, before[0], inner)
        python += "(?%s%s%s)" % (kind, before[1], its)
    inner, its = alternatives(r, 1)
    return ecma + "(?:" + inner + ")", python + its


def check(engine, r, counts):
    ecma, python = looking_ahead(r) if r.random() < 0.2 else alternatives(r)
    schema = {"type": "string", "pattern": ecma}
    low, high = 0, 10 ** 9
    if r.random() < 0.2:
        low, high = schema["minLength"], schema["maxLength"] = sorted((r.randrange(4), r.randrange(8)))
    finder = re.compile(python, re.ASCII)
    try:
        grammar = engine.grammar(schema)
    except ValueError as problem:
        if "more than 4096 places" in str(problem):  # of expressions that look ahead
            counts["too large"] += 1
            return
        assert "nothing can fit" in str(problem), (ecma, str(problem))
        grammar = None
        counts["nothing fits"] += 1
    for _ in range(12):
        text = "".join(r.choice(LETTERS) for _ in range(r.choice((0, 1, 1, 2, 3, 5, 8))))
        fits = low <= len(text) <= high and finder.search(text) is not None
        written = json.dumps(text, ensure_ascii=False).encode()
        is_accepted = grammar is not None and accepts(engine, grammar, [engine.by_bytes[byte] for byte in written]) is None
        assert is_accepted == fits, (schema, python, text, fits)
        counts["fit" if fits else "do not"] += 1
    for _ in range(2 if grammar else 0):
        written = walk(engine, r, grammar, (schema, python))
        if written is not None and "\\p{" not in ecma.lower():  # which is written for re with these letters only
            text = json.loads(written)
            assert low <= len(text) <= high and finder.search(text), (schema, python, text)
            counts["walks"] += 1
    if grammar:
        engine.lib.kt_grammar_destroy(grammar)


def main():
    library, tokenizer, patterns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    r = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    engine = Engine(library, tokenizer)
    engine.by_bytes = {text[0]: i for i, text in engine.tokens.items() if len(text) == 1}
    engine.texts = sorted(engine.tokens)
    counts = dict.fromkeys(("fit", "do not", "walks", "nothing fits", "too large"), 0)
    for _ in range(patterns):
        check(engine, r, counts)
    print(counts)
    # Enough of both was tried: most seeds have twice as much.
    return 0 if counts["fit"] > patterns and counts["walks"] > patterns / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
