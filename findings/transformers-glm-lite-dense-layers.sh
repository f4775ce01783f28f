#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Guess: in the configuration of GLM-4.7-Flash (glm4_moe_lite), first_k_dense_replace is the number of layers before
# the first one with experts, as it does in glm4_moe and deepseek_v3, whose key it is.
# Seen with transformers 5.24.0: the key is stored as an attribute and never read. Without mlp_layer_types there is one
# dense layer, whatever the value; in glm4_moe the same key counts.
# Fails if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --target "$work" transformers==5.24.0
PYTHONPATH=$work TRANSFORMERS_VERBOSITY=error python3 - <<'END'
import inspect

import transformers
from transformers.models.glm4_moe import configuration_glm4_moe as plain
from transformers.models.glm4_moe_lite import configuration_glm4_moe_lite as lite

for dense in 1, 3:
    config = transformers.AutoConfig.for_model("glm4_moe_lite", num_hidden_layers=4, first_k_dense_replace=dense)
    print(transformers.__version__, "first_k_dense_replace", dense, "->", config.mlp_layer_types)
    assert config.first_k_dense_replace == dense
    assert config.mlp_layer_types == ["dense", "sparse", "sparse", "sparse"], "the behavior has changed"
assert "first_k_dense_replace" in inspect.getsource(plain)
assert "first_k_dense_replace" not in inspect.getsource(lite)
END
