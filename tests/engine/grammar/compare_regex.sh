#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Patterns beside Python's regular expressions.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || { echo "SKIP: Python cannot load a library for the emulated CPU"; exit 77; }
[ -z "${KT_TEST_SANITIZERS:-}" ] || { echo "SKIP: a sanitizer must be loaded before Python is"; exit 77; }
for python in "$PYTHON" python3 none; do
    "$python" -c 'import ctypes, re' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIP: needs Python"; exit 77; }
command_line="tests/engine/grammar/compare_regex.py"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$KT_TEST_SOURCE/tests/engine/grammar/compare_regex.py" "$KT_TEST_BUILD/.libs/libktengine.so" \
    "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" "${KT_TEST_TEXTS:-60}" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
finish
