#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Guess: a JSON Schema's "format": "date" lets llguidance accept only days that exist, as RFC 3339 demands.
# Seen with llguidance 1.9.1: the number of days depends on the month but not on the year, so 29 February is accepted
# in every year; 30 February is not. A leap second of "time" is accepted at any minute, not only at 23:59 UTC.
# Fails if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --no-deps --target "$work" llguidance==1.9.1
PYTHONPATH=$work python3 - <<'END'
import json

import llguidance


class Bytes:
    eos_token_id, bos_token_id, unk_token_id = 256, None, None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    special_token_ids = [256]

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
for name, text, seen in (("date", "2024-02-29", True), ("date", "2023-02-29", True), ("date", "2023-02-30", False),
                         ("time", "23:59:60Z", True), ("time", "12:30:60Z", True), ("time", "12:30:61Z", False)):
    schema = json.dumps({"type": "string", "format": name})
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema))
    accepted = all(matcher.consume_token(byte) for byte in json.dumps(text).encode()) and matcher.is_accepting()
    print(name, text, "accepted" if accepted else "refused")
    assert accepted == seen, "the behavior has changed"
END
