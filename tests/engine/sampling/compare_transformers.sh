#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Samplers beside Hugging Face's processors of logits.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || { echo "SKIP: Python cannot load a library for the emulated CPU"; exit 77; }
[ -z "${KT_TEST_SANITIZERS:-}" ] || { echo "SKIP: a sanitizer must be loaded before Python is"; exit 77; }
for python in "$PYTHON" python3 none; do
    "$python" -c 'import transformers, torch, numpy; transformers.MinPLogitsWarper' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIP: Python has no packages transformers, torch and numpy"; exit 77; }
command_line="tests/engine/sampling/compare_transformers.py"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
    "$python" "$KT_TEST_SOURCE/tests/engine/sampling/compare_transformers.py" \
    "$KT_TEST_BUILD/.libs/libktengine.so" "${KT_TEST_TEXTS:-300}" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
finish
