#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What KTMoEWrapper costs beside the C calls that it makes: submit and sync of one token.

    PYTHONPATH=tools/python KT_KERNEL_LIBRARY=build/.libs/libktkernel.so.0 \\
        python3 tests/bench/python_overhead.py [MODEL] [--threads N] [--rounds N]

MODEL is a checkpoint of small experts (tests/data/tiny-moe/fp8-block-l0 by default), so that little but the calls
is timed. Both ways are timed in turns, in blocks; printed are the medians in microseconds of a call of
kt_layer_submit and kt_wait with everything prepared, of the wrapper's submit_forward and sync_forward, and the
difference. Exit status 1: the difference is above 30.
"""

import argparse
import ctypes
import pathlib
import statistics
import sys
import time

import numpy

import kt_kernel
from kt_kernel import _abi
from kt_kernel._lib import lib

try:
    import torch
except ImportError:
    torch = None

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "tiny-moe" / "fp8-block-l0"
LIMIT = 30


def time_calls(function, n):
    times = []
    for _ in range(n):
        begin = time.perf_counter_ns()
        function()
        times.append(time.perf_counter_ns() - begin)
    return times


def prepared_call(wrapper, batch):
    """kt_layer_submit and kt_wait with arguments that are there already."""
    forward, _out, keep = wrapper.moe._prepare(*batch)
    ticket, error = ctypes.c_uint64(), _abi.kt_error()
    layer, context, error_at = wrapper.moe.handle, wrapper.context.handle, ctypes.byref(error)
    forward_at, ticket_at = ctypes.byref(forward), ctypes.byref(ticket)

    def call():
        if lib.kt_layer_submit(layer, forward_at, ticket_at, error_at) or lib.kt_wait(context, ticket, error_at):
            raise SystemExit(error.message.decode())

    call.keep = keep, _out
    return call


def wrapper_call(wrapper, batch):
    def call():
        wrapper.submit_forward(*batch, 0)
        wrapper.sync_forward(batch[0], 0)

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=str(DATA))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with kt_kernel.Checkpoint(options.model) as checkpoint:
        moe = checkpoint.moe(checkpoint.layers[0])
    top_k = moe.top_k or 1
    wrapper = kt_kernel.KTMoEWrapper(
        moe.layer, moe.n_experts, top_k, moe.hidden_size, moe.intermediate_size, None, options.threads, 1,
        options.model, 16, method="auto",
    )  # fmt: skip
    wrapper.load_weights()
    arrays = [
        numpy.ones((1, moe.hidden_size), "float32"),
        numpy.arange(top_k, dtype="int64").reshape(1, -1),
        numpy.ones((1, top_k), "float32"),
    ]
    worst = 0.0
    print(f"{'arrays':<8} {'C':>8} {'Python':>8} {'more':>8}   microseconds")
    for kind in ("numpy", "torch") if torch else ("numpy",):
        batch = [torch.from_numpy(array) for array in arrays] if kind == "torch" else arrays
        calls = prepared_call(wrapper, batch), wrapper_call(wrapper, batch)
        times = [[], []]
        for _ in range(options.rounds):
            for call, taken in zip(calls, times):
                time_calls(call, 20)
                taken += time_calls(call, 200)
        c, python = (statistics.median(taken) / 1000 for taken in times)
        worst = max(worst, python - c)
        print(f"{kind:<8} {c:8.2f} {python:8.2f} {python - c:8.2f}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
