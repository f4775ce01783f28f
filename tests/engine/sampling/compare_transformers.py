#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_transformers.py LIBRARY CASES

Samplers of libktengine beside Hugging Face's processors of logits, each alone and in a row: how many tokens they leave,
and which one the same random number draws. Cases in which float32 decides are left out and counted."""
import ctypes
import random
import sys

import numpy
import torch
import transformers


class Params(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("temperature", ctypes.c_double),
                ("top_k", ctypes.c_uint32), ("n_top", ctypes.c_uint32)]
    _fields_ += [(name, ctypes.c_double) for name in
                 ("top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold",
                  "repetition_penalty")]


class Choice(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("n_left", ctypes.c_uint32), ("logprob", ctypes.c_float),
                ("n_top", ctypes.c_uint32), ("top", ctypes.c_void_p)]


# A row for each step, in the order of <kt/sampling.h>: the field, values, Hugging Face's class.
STEPS = (
    ("repetition_penalty", (1.05, 1.3, 2.0, 0.7), transformers.RepetitionPenaltyLogitsProcessor),
    ("top_k", (1, 2, 20, 50, 400), transformers.TopKLogitsWarper),
    ("typical_p", (0.05, 0.2, 0.5, 0.9, 0.99), transformers.TypicalLogitsWarper),
    ("top_p", (0.05, 0.3, 0.8, 0.9, 0.95, 0.999), transformers.TopPLogitsWarper),
    ("min_p", (0.01, 0.05, 0.3, 0.9), transformers.MinPLogitsWarper),
    ("temperature", (0.1, 0.6, 1.0, 1.7, 5.0), transformers.TemperatureLogitsWarper),
)
POSITIONS = range(40, 48)


def theirs(logits, history, chosen):
    """Probabilities, and whether each token is left, in float64."""
    ids = torch.tensor([history])
    scores = torch.tensor(logits, dtype=torch.float64)[None]
    for _field, value, processor in chosen:
        scores = processor(value)(ids, scores)
    return torch.softmax(scores, -1)[0].numpy(), torch.isfinite(scores)[0].numpy()


def close(logits, history, chosen):
    """Does a value that is a little different leave other tokens?"""
    kept = theirs(logits, history, chosen)[1]
    for i, (field, value, processor) in enumerate(chosen):
        if field in ("typical_p", "top_p", "min_p"):
            for other in (value - 1e-5, value + 1e-5):
                if other < 1 and (theirs(logits, history, chosen[:i] + [(field, other, processor)] + chosen[i + 1:])[1]
                                  != kept).any():
                    return True
    return False


def ours(library, logits, history, chosen, seed):
    params = Params(struct_size=ctypes.sizeof(Params), seed=seed, temperature=1)
    for field, value, _processor in chosen:
        setattr(params, field, value)
    sampler, choice = ctypes.c_void_p(), Choice()
    numbers = numpy.asarray(logits, dtype=numpy.float32)
    ids = (ctypes.c_int32 * len(history))(*history)
    assert library.kt_sampler_create(ctypes.c_uint64(len(numbers)), ctypes.byref(params), ctypes.byref(sampler), None) == 0
    assert library.kt_sampler_accept(sampler, ids, ctypes.c_uint64(len(history)), 0, None) == 0
    for position in POSITIONS:
        assert library.kt_sampler_choose(sampler, ctypes.c_void_p(numbers.ctypes.data), ctypes.c_uint64(position), None,
                                         ctypes.byref(choice), None) == 0
        yield position, choice.id, choice.n_left
    library.kt_sampler_destroy(sampler)


def compare(library, rng, chosen):
    """1 if the case proved nothing."""
    n = rng.choice((3, 64, 100, 1000))
    logits = numpy.random.default_rng(rng.getrandbits(32)).normal(-2, rng.choice((0.5, 2, 4)), n).astype(numpy.float32)
    history = [rng.randrange(n) for _ in range(rng.randrange(1, 40))]
    seed = rng.getrandbits(64)
    probabilities, kept = theirs(logits, history, chosen)
    if close(logits, history, chosen):
        return 1
    borders = numpy.cumsum(probabilities)
    filters = any(field in ("typical_p", "top_p", "min_p") or field == "top_k" and value < n for field, value, _p in chosen)
    for position, token, n_left in ours(library, logits, history, chosen, seed):
        what = f"{[step[:2] for step in chosen]} of {n} tokens, seed {seed}, position {position}"
        assert n_left == (kept.sum() if filters else n), f"{what}: {n_left} tokens are left, {kept.sum()} theirs"
        u = library.kt_sampling_random(ctypes.c_uint64(seed), ctypes.c_uint64(position), 0)
        if numpy.abs(borders - u).min() > 1e-5:
            assert token == numpy.searchsorted(borders, u, side="right"), f"{what}: token {token}"
    return 0


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.kt_sampling_random.restype = ctypes.c_double
    rng, cases, n_close, n = random.Random(1), int(sys.argv[2]), 0, 0
    for i in range(cases):
        if i % 2:
            names = {STEPS[i // 2 % len(STEPS)][0]}
        else:
            names = {step[0] for step in STEPS if rng.random() < 0.5}
        chosen = [(field, rng.choice(values), processor) for field, values, processor in STEPS if field in names]
        n_close += compare(library, rng, chosen)
        n += 1
    assert n_close < n / 10, f"{n_close} of {n} cases are too close to tell"
    print(f"{n} cases as transformers {transformers.__version__} has them, {n_close} of them too close to tell")


if __name__ == "__main__":
    main()
