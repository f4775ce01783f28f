# SPDX-License-Identifier: Apache-2.0
"""A hundred thousand forwards leave no memory behind; with torch tensors where torch is installed."""

import gc
import os

import numpy as np
from conftest import Model

try:
    import torch
except ImportError:
    torch = None

FORWARDS, WARM_UP = 80_000, 5_000
IN_TURNS = 20_000


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays(tmp_path):
    model = Model(tmp_path, n_experts=2, hidden=32, intermediate=32, top_k=1)
    wrapper = model.wrapper(cpuinfer_threads=1)
    wrapper.load_weights()
    hidden, ids, weights = (torch.from_numpy(array) if torch else array for array in model.batch(1))

    def serve(n):
        for _ in range(n):
            wrapper.forward(hidden, ids, weights)

    def serve_in_turns(n):
        for _ in range(n):
            wrapper.submit_forward(hidden, ids, weights, 0)
            wrapper.sync_forward(hidden, 0)

    serve(WARM_UP)
    serve_in_turns(WARM_UP)
    before = resident()
    serve(FORWARDS)
    serve_in_turns(IN_TURNS)
    # Python's smallest object, left behind by each forward, would be 3 MB or more.
    assert resident() - before < 2 << 20
    assert np.isfinite(np.asarray(wrapper.forward(hidden, ids, weights))).all()
