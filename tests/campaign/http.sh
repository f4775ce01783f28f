#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Malformed requests for kt run, for so many seconds: http.sh SECONDS SEED. Prints what attack.c prints.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
seconds=$1 seed=$2 tried=0 wrong=0 crashes=0
fuzz=$KT_TEST_SOURCE/tests/engine/serve/serve_fuzz.py
start "$model" --context 256 --chat-template chatml --timeout 1 --log-level error
end=$(($(date +%s) + ${seconds%.*}))
while
    "$python" "$fuzz" "$port" 200 "$seed" >"$out" 2>"$err" || {
        bad=$(grep -c '^FAILED:' "$err")
        wrong=$((wrong + (bad > 0 ? bad : 1)))
        cut -c 1-600 "$err" | head -n 10
    }
    tried=$((tried + 200)) seed=$((seed + 1))
    kill -0 "$server" 2>/dev/null && [ "$(date +%s)" -lt "$end" ]
do
    :
done
kill "$server" 2>/dev/null
wait "$server" || { crashes=1; cut -c 1-600 "$dir/served" | tail -n 10; }
server=
echo "$tried $crashes 0 $wrong 0 $seed"
[ $((crashes + wrong)) -eq 0 ]
