# SPDX-License-Identifier: Apache-2.0
"""Numbers that are a hash of a name and an index, and what is recorded of logits. numbers.c has the same."""
import numpy as np

PROJECTIONS = 16  # sums of logits with random signs
MASK = (1 << 64) - 1


def hash_name(name):
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 & MASK
    return value


def draw(name, count, first=0):
    """64 random bits for each index."""
    with np.errstate(over="ignore"):
        indices = np.uint64(first) + np.arange(1, count + 1, dtype=np.uint64)
        z = np.uint64(hash_name(name)) + indices * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return z ^ (z >> np.uint64(31))


def numbers(name, count, mean, deviation):
    """Nearly normal: the sum of four uniform numbers of 16 bits, rounded to bfloat16."""
    bits = draw(name, count)
    total = sum((bits >> np.uint64(16 * i)) & np.uint64(0xffff) for i in range(4)).astype(np.float64)
    values = mean + deviation * ((total - 131070.0) / 65536.0 * 1.7320508075688772)
    whole = values.astype(np.float32).view(np.uint32)
    whole = (whole + np.uint32(0x7fff) + ((whole >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xffff0000)
    return whole.view(np.float32)


def whole_numbers(name, count, first, range_):
    """Whole numbers from first to first + range."""
    return (int(first) + draw(name, count) % np.uint64(int(range_) + 1)).astype(np.float32)


def project(logits, position):
    """What is recorded of the logits of a token."""
    bits = draw("signs", len(logits), position << 32)
    signs = 1.0 - 2.0 * ((bits[None] >> np.arange(PROJECTIONS, dtype=np.uint64)[:, None]) & np.uint64(1))
    return np.concatenate(([np.linalg.norm(logits)], signs @ logits.astype(np.float64)))
