#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt tokenize beside llama.cpp, on GGUF files with each way to cut words that it knows.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || { echo "SKIP: kt cannot execute kt-engine for the emulated CPU"; exit 77; }
for python in "$PYTHON" python3 none; do
    "$python" -c 'import llama_cpp, tokenizers' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIP: Python has no packages llama_cpp and tokenizers"; exit 77; }
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/.libs exec %s "$@"\n' "$KT_TEST_BUILD" "$kt_program" >"$dir/kt"
chmod +x "$dir/kt"
command_line="tests/engine/text/compare_llama.py"
PYTHONDONTWRITEBYTECODE=1 "$python" "$KT_TEST_SOURCE/tests/engine/text/compare_llama.py" "$dir/kt" "$dir" \
    "${KT_TEST_TEXTS:-20}" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
finish
