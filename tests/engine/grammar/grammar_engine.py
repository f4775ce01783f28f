# SPDX-License-Identifier: Apache-2.0
"""The functions of libktengine that scripts of this folder call, and a tokenizer."""
import ctypes
import json

# What \s is in ECMA-262, for a class of Python's re.
BLANKS = "\\t\\n\\v\\f\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Token(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("length", ctypes.c_uint64), ("type", ctypes.c_uint32),
                ("ends", ctypes.c_uint32)]


class Part(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("length", ctypes.c_uint64), ("is_content", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


class Engine:
    """The functions of the library, and a tokenizer."""

    def __init__(self, path, tokenizer):
        self.lib = ctypes.CDLL(path)
        self.error = Error()
        self.tokenizer = self.made("kt_tokenizer_open", tokenizer.encode())
        self.vocabulary = self.made("kt_vocabulary_create", self.tokenizer)
        self.tokens, self.ends = {}, set()
        token = Token()
        i = misses = 0
        while misses < 5000:
            if self.lib.kt_tokenizer_token(self.tokenizer, ctypes.c_int64(i), ctypes.byref(token), None) == 0:
                self.tokens[i] = ctypes.string_at(token.text, token.length) if token.text else b""
                misses = 0
                if token.ends:
                    self.ends.add(i)
            misses += 1
            i += 1

    def made(self, name, *arguments):
        out = ctypes.c_void_p()
        status = getattr(self.lib, name)(*arguments, ctypes.byref(out), ctypes.byref(self.error))
        if status:
            raise ValueError(self.error.message.decode())
        return out

    def grammar(self, schema):
        return self.grammar_of(json.dumps(schema).encode())

    def grammar_of(self, text):
        return self.made("kt_grammar_json", text, ctypes.c_uint64(len(text)), None)

    def constraint(self, grammar):
        return self.made("kt_constraint_create", grammar, self.vocabulary)

    def allows(self, constraint, token):
        allowed = ctypes.c_uint32()
        assert self.lib.kt_constraint_allows(constraint, token, ctypes.byref(allowed), None) == 0
        return bool(allowed.value)

    def mask(self, constraint):
        mask, n = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
        assert self.lib.kt_constraint_mask(constraint, ctypes.byref(mask), ctypes.byref(n), None) == 0
        ids = []
        for i in range(n.value):
            word = mask[i]
            while word:
                low = word & -word
                ids.append(64 * i + low.bit_length() - 1)
                word ^= low
        return ids

    def accept(self, constraint, token):
        return self.lib.kt_constraint_accept(constraint, token, None) == 0

    def encode(self, text):
        data = text.encode()
        part, ids, n = Part(data, len(data), 1, 0), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_uint64()
        status = self.lib.kt_tokenizer_encode(self.tokenizer, ctypes.byref(part), ctypes.c_uint64(1), 0,
                                              ctypes.byref(ids), ctypes.byref(n), ctypes.byref(self.error))
        assert status == 0, self.error.message
        found = ids[:n.value]
        self.lib.kt_ids_free(ids)
        return found


def accepts(engine, grammar, ids):
    constraint = engine.constraint(grammar)
    for n, i in enumerate(ids):
        if not engine.allows(constraint, i) or not engine.accept(constraint, i):
            engine.lib.kt_constraint_destroy(constraint)
            return n
    place = engine.lib.kt_constraint_place(constraint)
    engine.lib.kt_constraint_destroy(constraint)
    return None if place else len(ids)
