#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run: a server of the trained model, by clients that know nothing of how it is made.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"

# A kt without kt-serve names the package, where none is installed.
mkdir "$dir/alone"
cp "$kt_program" "$dir/alone/kt"
if strings "$kt_program" 2>/dev/null | grep -x '/.*libexec.*/kt-kernel' >"$dir/installed" &&
    [ ! -e "$(head -n 1 "$dir/installed")/kt-serve" ]; then
    built=$kt_program
    kt_program=$dir/alone/kt
    kt run x
    exits 1
    warns "'kt run' needs the program kt-serve, .* install the package kt-kernel-serve$"
    kt_program=$built
else
    echo "not run: kt without kt-serve: it may be installed"
fi

# What is wrong is said before anything is loaded.
kt run
exits 2
kt run "$model" --port 70000
exits 2
kt run "$model" --temperature 9
exits 2
kt run "$model" --kv-size 1e300G
exits 2
kt run "$model" --kv-size much
exits 2
kt run "$dir/nowhere"
exits 1
kt run "$model" --context 100000
exits 1
warns 'the model supports 2048'
kt run "$model" --context 256 --kv-size 1K
exits 1
warns 'too small for a context of 256 tokens'
echo secret >"$dir/key"
chmod 644 "$dir/key"
kt run "$model" --dry-run --api-key-file "$dir/key"
exits 1
warns 'chmod 600'
chmod 600 "$dir/key"
kt run "$model" --dry-run --api-key-file "$dir/key" --format json
exits 0
says '"kv_tokens": *4096'
says '"keys": *"1"'
kt run "$model" --dry-run --api-key-file "$dir/none"
exits 1
warns 'none: No such file'
echo '# no key' >"$dir/key"
kt run "$model" --dry-run --api-key-file "$dir/key"
exits 1
warns 'it has no key; one is expected on each line'
kt run "$model" --dry-run --served-model-name ,
exits 2
warns "served-model-name ',' has no name"
kt run "$model" --dry-run --max-total-tokens 1
exits 1
warns 'max-total-tokens 1 is too small for a context'
kt run "$model" --context 64 --host "$(printf '%0300d' 0 | tr 0 x)"
exits 1
warns 'host xxx.*: '
kt run "$model" --host 0.0.0.0 --dry-run
exits 0
warns 'allows access from other machines'

# All paths.
start "$model" --context 256 --chat-template chatml
run_python serve_endpoints.py "$port"
grep -q '"POST /v1/completions" 200 ' "$dir/served" || fail "the log must have a line for each request"
[ "$(grep -c "requests have a field 'unknown'" "$dir/served")" = 1 ] || fail "an unknown field is named once"
grep -q 'KATHARINA\|Hello' "$dir/served" && fail "the log must not have what was said"
kt run "$model" --port "$port"
exits 1
warns 'Address already in use'
stop 0

# Malformed requests. One seed, so that a failure is one of the change; KT_TEST_SEED and KT_TEST_CASES for others and
# more. The model has one thread here and where it is limits that are tested: two wait for each other beside tests.
start "$model" --context 256 --chat-template chatml --timeout 1 --log-level error --threads 1
run_python serve_fuzz.py "$port" "${KT_TEST_CASES:-2000}" "${KT_TEST_SEED:-1}"
stop 0

# Keys, limits, signals, crowds: servers of their own.
run_python serve_limits.py "$model" "$dir" "$kt_program"
run_python serve_crowd.py "$model" "$dir" "$kt_program"
finish
