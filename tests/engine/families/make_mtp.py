#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_mtp.py [FAMILY...] - logits of the next-token blocks (MTP) of tiny random models.

For each family whose table has a line `mtp POSITION...`. Transformers has an own model of Mellum's block, MtpModel; of
others it leaves blocks out or gives them the hidden state behind the last norm, see the README of tools/engine/model.
But they end in a layer of the model's own kind. So a second model is opened whose last layer has the block's weights,
and is given what the block makes of hidden states and tokens; the rest are the few formulas below. Row r is made of the
hidden state of token r and of token r + 1; position p names row p - 1, which guesses the token behind token p. Writes
mtp.f32: what make_expected.py records of logits at each position, in float64. Needs what that needs.
"""
import pathlib
import re
import sys
import tempfile

import numpy as np
import torch
import transformers

import make_expected
from draws import numbers, project
from make_expected import DATA, Table, ids, open_model, write

# What else the model is whose last layer has the block's weights: dense there, with the block's limit.
AS_BLOCK = {"Step3p5ForCausalLM": {"moe_layers_enum": "1,2", "swiglu_limits_shared": [0.5, 0.25, 0.0, 0.75]}}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def tensors_of(table):
    return {name: torch.from_numpy(numbers(name, int(np.prod(dims)), mean, deviation).reshape(dims).copy()).to(DTYPES[kind])
            for name, dims, mean, deviation, kind in table.expand()}


def open_with_block(table, tensors, block):
    """The model whose last layer is the block."""
    last = f"model.layers.{table.config['num_hidden_layers'] - 1}."
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(last) and not name.startswith(block)}
    kept.update({last + name.removeprefix(block): tensor for name, tensor in tensors.items()
                 if name.startswith(block) and re.match(r"(self_attn|mlp|input_lay|post_att)", name.removeprefix(block))})
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_expected.save(folder, kept, table.config | AS_BLOCK.get(table.config["architectures"][0], {}))
        return open_model(folder)


def run(model, tokens, given=None):
    """What comes out of the last layer, which gets `given` instead of what the one before it made."""
    taken = []

    def before(module, args, kwargs):
        if args:
            return (given[None], *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": given[None]}

    def after(module, args, output):
        taken.append((output[0] if isinstance(output, tuple) else output).reshape(len(tokens), -1))

    layer = getattr(model.model, "language_model", model.model).layers[-1]
    hooks = [layer.register_forward_hook(after)]
    if given is not None:
        hooks.append(layer.register_forward_pre_hook(before, with_kwargs=True))
    with torch.no_grad():
        model(torch.from_numpy(tokens)[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    return taken[0].double()


def compute_by_transformers(table):
    from transformers.cache_utils import MtpCache
    from transformers.modeling_layers import MtpModel

    tokens = torch.from_numpy(ids(table))[None]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        make_expected.write_model(pathlib.Path(folder), table, table.config)
        model = open_model(pathlib.Path(folder))
        block = MtpModel.from_pretrained(model, dtype=torch.float64).eval()
        hidden = model.model(tokens, use_cache=False).last_hidden_state
        places = torch.arange(1, tokens.shape[1])[None]
        out = block.forward_layer(0, hidden[:, :-1], places, MtpCache(config=model.config.get_mtp_config()),
                                  input_ids=tokens[:, 1:])
        return model.lm_head(out)[0].numpy()


def compute(table):
    if table.config["model_type"] == "mellum":
        return compute_by_transformers(table)
    tensors = tensors_of(table)
    config, tokens, is_qwen = table.config, ids(table), "mtp.fc.weight" in tensors
    is_step = config["architectures"] == ["Step3p5ForCausalLM"]
    behind = "transformer." if is_step else ""
    block = "mtp.layers.0." if is_qwen else f"model.layers.{config['num_hidden_layers']}."
    names = ([f"mtp.{name}" for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "fc")] if is_qwen else
             [block + name for name in ("enorm", "hnorm", behind + "shared_head.norm", "eh_proj")])
    token_norm, hidden_norm, last_norm, joint = (tensors[name + ".weight"].double() for name in names)
    model_norm, embedding, head = (tensors[name + ".weight"].double() for name in
                                   ("model.norm", "model.embed_tokens", f"{block}transformer.shared_head.output" if is_step
                                    else "lm_head"))

    def norm(x, weight):  # Qwen's and Step's are stored less 1
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + config["rms_norm_eps"]) * (weight + (is_qwen or is_step))

    with tempfile.TemporaryDirectory() as folder:
        make_expected.write_model(pathlib.Path(folder), table, config)
        hidden = run(open_model(pathlib.Path(folder)), tokens)
    if is_qwen:
        hidden = norm(hidden, model_norm)
    pairs = torch.cat((norm(embedding[tokens[1:]], token_norm), norm(hidden[:-1], hidden_norm)), -1)
    out = run(open_with_block(table, tensors, block), tokens[:-1], pairs @ joint.T)
    return (norm(out, last_norm) @ head.T).numpy()


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for path in sorted(DATA.glob("*/model")):
        family = path.parent.name
        positions = [int(word) for line in path.read_text().splitlines() if line.startswith("mtp ") for word in line.split()[1:]]
        if positions and (len(sys.argv) == 1 or family in sys.argv[1:]):
            logits = compute(Table(family))
            write(DATA / family / "mtp.f32", np.concatenate([project(logits[p - 1], p) for p in positions]))
            print(family, len(positions), "rows, of a size of", float(np.abs(logits).mean()))


if __name__ == "__main__":
    main()
