#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Grammars beside the Python package jsonschema.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || { echo "SKIP: Python cannot load a library for the emulated CPU"; exit 77; }
[ -z "${KT_TEST_SANITIZERS:-}" ] || { echo "SKIP: a sanitizer must be loaded before Python is"; exit 77; }
for python in "$PYTHON" python3 none; do
    "$python" -c 'import jsonschema; jsonschema.Draft202012Validator.FORMAT_CHECKER' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIP: Python has no package jsonschema"; exit 77; }
command_line="tests/engine/grammar/compare_jsonschema.py"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$KT_TEST_SOURCE/tests/engine/grammar/compare_jsonschema.py" "$KT_TEST_BUILD/.libs/libktengine.so" \
    "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" "${KT_TEST_TEXTS:-40}" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
finish
