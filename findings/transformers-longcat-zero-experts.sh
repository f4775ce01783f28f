#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Guess: transformers opens the published files of LongCat-Flash, whose 512 experts have weights and whose other 256
# give what they read.
# Seen with transformers 5.24.0: gate_up_proj has room for all 768, down_proj for 512. Files have gates of 512, so
# from_pretrained ends in "mismatched sizes"; only what the class itself has saved fits.
# Fails if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --no-deps --target "$work" transformers==5.24.0
python3 - "$work/transformers/models/longcat_flash/modeling_longcat_flash.py" <<'END'
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
rooms = dict(re.findall(r"self\.(gate_up_proj|down_proj) = nn\.Parameter\(\s*torch\.empty\(self\.(\w+),", text))
print(rooms)
assert rooms == {"gate_up_proj": "total_experts", "down_proj": "num_routed_experts"}, "the behavior has changed"
END
