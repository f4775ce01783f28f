#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt tokenize beside Hugging Face's tokenizers, on vocabularies trained here and on the large test data.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || { echo "SKIP: kt cannot execute kt-engine for the emulated CPU"; exit 77; }
for python in "$PYTHON" python3 none; do
    "$python" -c 'import tokenizers' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIP: Python has no package tokenizers"; exit 77; }
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/.libs exec %s "$@"\n' "$KT_TEST_BUILD" "$kt_program" >"$dir/kt"
chmod +x "$dir/kt"
set --
if [ -d "${KT_TEST_DATA_SHARED:-}/tokenizers" ]; then
    for name in qwen3 deepseek_v3 gptoss; do
        set -- "$@" "$KT_TEST_DATA_SHARED/tokenizers/$name"
    done
else
    echo "SKIP: models' own tokenizers: KT_TEST_DATA names no folder with large test data"
fi
command_line="tests/engine/text/compare_tokenizers.py"
PYTHONDONTWRITEBYTECODE=1 "$python" "$KT_TEST_SOURCE/tests/engine/text/compare_tokenizers.py" "$dir/kt" "$dir" \
    "${KT_TEST_TEXTS:-1000}" "$@" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
command_line="tests/engine/text/compare_files.py"
PYTHONDONTWRITEBYTECODE=1 "$python" "$KT_TEST_SOURCE/tests/engine/text/compare_files.py" "$dir/kt" "$dir" \
    "${KT_TEST_FILES:-60}" >"$out" 2>"$err"
code=$?
exits 0
cat "$out"
finish
