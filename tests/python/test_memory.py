# SPDX-License-Identifier: Apache-2.0
"""A hundred thousand forwards leave no memory behind."""

import gc
import os

import numpy as np
import pytest
from conftest import Model

FORWARDS = 100_000


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_memory_stays(tmp_path, kind, request):
    torch = request.getfixturevalue("torch") if kind == "torch" else None
    model = Model(tmp_path, n_experts=2, hidden=32, intermediate=32, top_k=1)
    wrapper = model.wrapper(cpuinfer_threads=1)
    wrapper.load_weights()
    batch = model.batch(1)
    if torch:
        batch = [torch.from_numpy(array) for array in batch]
    hidden, ids, weights = batch

    def serve(n):
        for _ in range(n):
            wrapper.forward(hidden, ids, weights)

    def serve_in_turns(n):
        for _ in range(n):
            wrapper.submit_forward(hidden, ids, weights, 0)
            wrapper.sync_forward(hidden, 0)

    for function, n in ((serve, FORWARDS // 2 - FORWARDS // 20), (serve_in_turns, FORWARDS // 20)):
        function(1000)
        before = resident()
        function(n)
        # A leak of one small object a forward would be several MB.
        assert resident() - before < 1 << 20
    assert np.isfinite(np.asarray(wrapper.forward(hidden, ids, weights))).all()
