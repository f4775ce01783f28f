#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random expressions beside Python's re, and random schemas beside jsonschema where Python has it, for so many seconds:
# grammar.sh SECONDS SEED. Prints what attack.c prints.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
seconds=$1 seed=$2 tried=0 wrong=0 crashes=0 hangs=0 python=none
for one in ${PYTHON:-} python3; do
    "$one" -c 'import ctypes, re' 2>/dev/null && { python=$one; break; }
done
scripts=regex
"$python" -c 'import jsonschema; jsonschema.Draft202012Validator.FORMAT_CHECKER' 2>/dev/null && scripts="regex jsonschema"
[ "$python" != none ] || scripts=
end=$(($(date +%s) + ${seconds%.*}))
while
    for script in $scripts; do
        PYTHONDONTWRITEBYTECODE=1 timeout 120 "$python" "$KT_TEST_SOURCE/tests/engine/grammar/compare_$script.py" \
            "$KT_TEST_BUILD/.libs/libktengine.so" "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" 50 "$seed" >"$out" 2>"$err"
        case $? in
        0) ;;
        124) hangs=$((hangs + 1)); echo "compare_$script, seed $seed: more than 120 seconds" ;;
        1) wrong=$((wrong + 1)); tail -n 1 "$err" | cut -c 1-600 | sed "s/^/compare_$script, seed $seed: /" ;;
        *) crashes=$((crashes + 1)); echo "compare_$script, seed $seed: it crashed" ;;
        esac
        tried=$((tried + 50))
    done
    seed=$((seed + 1))
    [ -n "$scripts" ] && [ "$(date +%s)" -lt "$end" ]
do
    :
done
echo "$tried $crashes $hangs $wrong 0 $seed"
[ $((crashes + hangs + wrong)) -eq 0 ]
