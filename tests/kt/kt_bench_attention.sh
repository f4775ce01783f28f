#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt bench --attention on small shapes: a row for each combination, which agrees with itself. No time is judged.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin attention || skip "the plugin attention was not built"
set -- --threads 2 --cycle 2 --repeats 5 --runs 1 --min-time 0.002

# Attention has a row for each context and form, the gated delta rule one of both.
kt bench --attention 4/2x32,2/1x32:16,delta:6/2x32x16 --context 20,64 --cache bf16,q8_0 --sequences 1,3 \
    --tokens 1,40 "$@" --format csv
exits 0
is_silent
[ "$(grep -c '^attention,' "$out")" -eq 36 ] || fail "36 rows are due: 2 shapes x 2 x 2 x 2 x 2 and 4"
# Columns: cache 4, context 5, sequences 6, tokens 7, ms 10, bytes 14, GB/s 15, TOPS 17.
awk -F, '
function near(a, b) { return a > .999 * b && a < 1.001 * b }
function wrong(what) { print what ": " $0; bad = 1 }
$1 == "attention" && $3 ~ /^delta/ {
    state = 6 * 32 * 16 * 4 * $6
    if ($4 != "f32" || $5 != "") wrong("a state is float32 and knows no context")
    if ($14 != state || !near($15 * $10, 2 * state / 1e6)) wrong("a state is read and written")
    if (!near($17 * $10, 6 * 32 * 16 * 6 * $6 * $7 / 1e9)) wrong("operations")
}
$1 == "attention" && $3 == "4/2x32" {
    if ($14 != 2 * 64 * ($5 + $7) * $6 * ($4 == "bf16" ? 2 : 34 / 32)) wrong("bytes")
    if (!near($17 * $10, 2 * 64 * 4 * $6 * $7 * ($5 + ($7 + 1) / 2) / 1e9)) wrong("operations")
}
END { exit bad }' "$out" || fail "these rows do not agree with themselves"

# Both have limits of their own, as their instructions may differ.
kt bench --attention delta:2/2x16,2/1x32 "$@" --format json
exits 0
says '"context": null'
says '"context": 4096'
says '"limit": "read"'

for shape in delta:3/2x16 delta:2/2x17 delta:2/2x16:16 delta: 4/3x32 4/2x32x; do
    kt bench --attention "$shape" "$@"
    exits 2
    warns "$shape is not a shape"
done
kt tune --attention delta:2/2x16
exits 2
warns 'Gated DeltaNet has nothing that can be tuned'
finish
