#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What make abi-check takes for an addition, what for a break, and which number it wants raised.
set -eu
cd "${KT_TEST_SOURCE:?run by make check}/tests/abi"
command -v python3 >/dev/null || { echo "SKIP: python3 is not installed"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec python3 - <<'END'
from check import HANDED_OUT, compare, engine_number, library_number, plugin_number

BASE = {
    "function kt_wait": "int (void)",
    "enum kt_dtype.KT_DTYPE_F32": "1",
    "struct kt_ops": "16 bytes",
    "struct kt_ops.struct_size": "@0 uint32_t",
    "struct kt_ops.reserved": "@4 uint32_t",
    "struct kt_ops.pack": "@8 void (*)(void)",
    "struct kt_caps": "8 bytes",
    "struct kt_caps.cpu": "@0 uint64_t",
    "struct kt_option": "8 bytes",
    "struct kt_option.key": "@0 const char *",
    "struct kt_view": "8 bytes",
    "struct kt_view.struct_size": "@0 uint32_t",
    "struct kt_view.dtype": "@4 uint32_t",
    "struct kt_expert": "16 bytes",
    "struct kt_expert.gate": "@0 struct kt_view",
    "struct kt_expert.bias": "@8 const float *",
}
GROWN = [  # what changes (None: goes), the verdict
    ({}, ""),
    ({"function kt_new": "int (void)"}, "added"),
    ({"function kt_wait": None}, "broken"),
    ({"function kt_wait": "int (int)"}, "broken"),
    ({"enum kt_dtype.KT_DTYPE_F16": "2"}, "added"),
    ({"enum kt_dtype.KT_DTYPE_F32": "2"}, "broken"),
    ({"struct kt_new": "8 bytes", "struct kt_new.x": "@0 int"}, "added"),
    ({"struct kt_ops": "24 bytes", "struct kt_ops.cut": "@16 void (*)(void)"}, "added"),
    ({"struct kt_caps": "16 bytes", "struct kt_caps.ahead": "@8 uint64_t"}, "added"),
    ({"struct kt_option": "16 bytes", "struct kt_option.help": "@8 const char *"}, "broken"),
    ({"struct kt_view": "12 bytes", "struct kt_view.rows": "@8 uint32_t"}, "broken"),
    ({"struct kt_ops.reserved": None, "struct kt_ops.flags": "@4 uint32_t"}, "added"),
    ({"struct kt_ops.pack": None}, "broken"),
    ({"struct kt_ops": "24 bytes", "struct kt_ops.pack": "@16 void (*)(void)"}, "broken"),
    ({"struct kt_ops": "8 bytes"}, "broken"),
    ({"struct kt_caps.low": "@4 uint32_t"}, "broken"),
]
for change, verdict in GROWN:
    new = {key: value for key, value in {**BASE, **change}.items() if value is not None}
    found = compare("case", BASE, new, HANDED_OUT)
    assert found == verdict, (change, found, verdict)

assert "1:0:1" in library_number("added", (0, 0, 0), (0, 0, 0))
assert library_number("added", (0, 0, 0), (1, 0, 1)) is None
assert "4:0:3" in library_number("added", (3, 1, 2), (3, 2, 2))
assert "4:0:0" in library_number("broken", (3, 1, 2), (4, 0, 3))
assert library_number("broken", (3, 1, 2), (4, 0, 0)) is None
assert "KT_ENGINE_VERSION in configure.ac from 0:0:0 to 1:0:1" in engine_number("added", (0, 0, 0), (0, 0, 0))
assert "MINOR" in plugin_number("added", (1, 1), (1, 1))
assert plugin_number("added", (1, 1), (1, 2)) is None
assert "MAJOR" in plugin_number("broken", (1, 1), (1, 2))
assert plugin_number("broken", (1, 1), (2, 0)) is None
END
