#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Guess: an added token of a tokenizer.json has the id that the file gives it.
# Seen with tokenizers 0.23.3: the id is read and ignored. Tokens get the next free ids in the order of the list, so a
# file with the ids 7 and 5 after a vocabulary of two loads without a warning as 2 and 3, and one with 100 as 2.
# Fails if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --no-deps --target "$work" tokenizers==0.23.3
PYTHONPATH=$work python3 - <<'END'
import json

import tokenizers


def ids(added):
    tokens = [{"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True} for number, text in added]
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    file = {"version": "1.0", "added_tokens": tokens, "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model}
    return tokenizers.Tokenizer.from_str(json.dumps(file)).encode("a<x>b<y>").ids


for added, seen in (([(2, "<x>"), (3, "<y>")], [0, 2, 1, 3]),
                    ([(7, "<x>"), (5, "<y>")], [0, 2, 1, 3]),
                    ([(100, "<x>")], [0, 2, 1])):
    got = ids(added)
    print(tokenizers.__version__, added, "->", got)
    assert got == seen, "the behavior has changed"
END
