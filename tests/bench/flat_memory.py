#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process takes while a model writes many tokens: it must not grow.

    PYTHONPATH=tools/python LD_LIBRARY_PATH=build/.libs KT_KERNEL_LIBRARY=build/.libs/libktkernel.so.0 \\
        python3 tests/bench/flat_memory.py [MODEL] [--tokens N]

MODEL is the trained model of tests/data by default. Texts of 1000 tokens are written, each behind another
prompt. Printed are resident bytes, those of files left out, behind each tenth of the tokens. Exit status 1: the
last tenth ends with 1 % more than the first one.
"""

import argparse
import pathlib
import sys

import kt_kernel

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "tiny-moe" / "tiny-moe-q4_k_m.gguf"
LENGTH, LIMIT = 1000, 1.01


def resident():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=str(DATA))
    parser.add_argument("--tokens", type=int, default=100000)
    args = parser.parse_args()
    model = kt_kernel.Model(args.model)
    n, sizes = max(args.tokens // LENGTH, 10), []
    for i in range(n):
        prompt = [(i * 7 + t * t) % 1000 + 3 for t in range(16)]
        for _ in model.generate(prompt, LENGTH, ignore_eos=True, seed=i, temperature=1.0):
            pass
        if (i + 1) * 10 // n > i * 10 // n:
            sizes.append(resident())
            print(f"{(i + 1) * LENGTH:8} tokens  {sizes[-1] / 1e6:.3f} MB", flush=True)
    return 1 if sizes[-1] > LIMIT * sizes[0] else 0


if __name__ == "__main__":
    sys.exit(main())
