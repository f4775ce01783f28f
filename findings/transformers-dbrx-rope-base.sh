#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Guess: DBRX is rotated by the rope_theta of attn_config, 500000 in the published config.json, as the class itself
# reads it there and SGLang and llama.cpp's converter do.
# Seen with transformers 5.24.0: the angles come from rope_parameters, which attn_config does not fill, so the base is
# 10000, the default. A rope_theta at the top of config.json counts.
# Fails if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --target "$work" transformers==5.24.0
PYTHONPATH=$work TRANSFORMERS_VERBOSITY=error python3 - <<'END'
import transformers

published = {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000}
for more, seen in ({}, 10000.0), ({"rope_theta": 500000.0}, 500000.0):
    config = transformers.AutoConfig.for_model("dbrx", attn_config=dict(published), **more)
    print(transformers.__version__, more, "->", config.rope_parameters)
    assert config.attn_config.rope_theta == 500000
    assert config.rope_parameters["rope_theta"] == seen, "the behavior has changed"
END
