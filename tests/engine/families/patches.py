# SPDX-License-Identifier: Apache-2.0
"""Deliberate errors that neither a configuration nor weights can express: what make_expected.py's `patch` names.

A patch is a function of the model's module of transformers; it gives {name: replacement} for that module.
"""
import contextlib
import sys

import torch


def rotate_neighbours(module):
    """Rotated pairs are neighbours instead of half a head apart."""
    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        half = cos.shape[-1] // 2
        cos = cos[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim)
        sin = sin[..., :half].repeat_interleave(2, -1).unsqueeze(unsqueeze_dim)
        size = cos.shape[-1]

        def turn(x):
            part, rest = x[..., :size], x[..., size:]
            swapped = torch.stack((-part[..., 1::2], part[..., 0::2]), -1).flatten(-2)
            return torch.cat((part * cos + swapped * sin, rest), -1)
        return turn(q), turn(k)
    return {"apply_rotary_pos_emb": rotate}


def share_by_remainder(module):
    """Head h has keys of head h mod n instead of h / (heads of a group)."""
    def repeat(states, n):
        return states.repeat(1, n, 1, 1)
    return {"repeat_kv": repeat}


@contextlib.contextmanager
def applied(name, model):
    if not name:
        yield
        return
    module = sys.modules[type(model).__module__]
    kept = {}
    for attribute, replacement in globals()[name](module).items():
        kept[attribute] = getattr(module, attribute)
        setattr(module, attribute, replacement)
    try:
        yield
    finally:
        for attribute, original in kept.items():
            setattr(module, attribute, original)
