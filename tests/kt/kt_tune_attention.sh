#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt tune --attention with a plugin that computes all as often as its tunable says. Nothing here judges a time.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
umask 022
[ -f "$KT_TEST_BUILD/tests/plugins/kt_wrong_attention.so" ] ||
    skip "the test plugins were not built: libcheck is missing"
cp "$KT_TEST_BUILD/tests/plugins/kt_wrong_attention.so" "$dir"
KT_TEST_FAULT=SLOW
export KT_TEST_FAULT
cat >"$dir/kt.ini" <<INI
[plugin.wrong_attention]
module = $dir/kt_wrong_attention.so
INI
tuned=$dir/tuned.ini
set -- --config "$dir/kt.ini" --attention 4/2x32,2/1x32:16 --context 20 --threads 1 --cycle 2 --tokens 1,3 --min-time 0.003

# Beside other programs a search may miss what is best, but hardly four times (kt_tune.sh).
for _ in 1 2 3 4; do
    kt tune "$@" --cache bf16,q8_0 --format csv
    [ "$(grep -c '\.work = 1$' "$tuned")" -lt 4 ] || break
done
exits 0
says 'wrong_attention,scalar,bf16,attention,4/2x32,.*,tuned,'
says 'wrong_attention,scalar,q8_0,attention,2/1x32:16,.*,tuned,'
for key in bf16.attention-2x32x32 q8_0.attention-2x32x32 bf16.attention-2x32x16 q8_0.attention-2x32x16; do
    grep -q "^scalar.$key.work = 1\$" "$tuned" || fail "the best work of $key is 1"
    grep -q "^scalar.$key.gain = [0-9.]*\$" "$tuned" || fail "the gain of $key must be written"
done
kt config check --config "$dir/kt.ini"
exits 0
for _ in 1 2 3 4; do
    kt tune "$@"
    ! grep -q '4/2x32 .*work 1 (8)' "$out" || break
done
exits 0
says '4/2x32 .*work 1 (8)'

kt tune --show --config "$dir/kt.ini" --format csv
exits 0
says '^wrong_attention,scalar,work,1,16'

kt tune "$@" --minutes 0 --format csv
exits 0
says ',no time,'
grep -q '^scalar.bf16.attention-2x32x32.work = 1$' "$tuned" || fail "without time what was found must stay"

# A value that is out of range fails the plugin.
kt tune "$@" --set 'tuned.wrong_attention.scalar.*.*.work=17'
exits 2
warns 'must be a number from 1 to 16'
kt tune --reset --config "$dir/kt.ini"
exits 0

for wrong in '--levels' '--shape mixtral-8x7b' '--linear 4x4' '--source-type q8_0' '--backend a,b'; do
    # shellcheck disable=SC2086
    kt tune "$@" $wrong
    exits 2
done
kt tune --config "$dir/kt.ini" --context 20
exits 2
warns 'is for --attention'
kt tune --config "$dir/kt.ini" --attention 4/3x32
exits 2
warns '4/3x32 is not a shape'
kt tune --config "$dir/kt.ini" --attention 4/2x32 --cache q4_0
exits 2
kt tune --config "$dir/kt.ini" --attention 4/2x32 --cycle 2 --context 20 --backend nobody
exits 2

# kt explain says what is in force for a model's attention.
if [ -f "$KT_TEST_BUILD/libktengine.la" ] && [ -f "$KT_TEST_BUILD/kt_attention.la" ]; then
    unset KT_TEST_FAULT
    printf '[core]\nplugin_path = %s\n[plugin.attention]\nenabled = yes\n' "$KT_TEST_BUILD/.libs" >"$dir/whole.ini"
    kt explain "$data/tiny-moe-q4_k_m.gguf" --config "$dir/whole.ini" --set plugin.attention.level=scalar \
        --set 'tuned.attention.scalar.*.*.tile_queries=32' --set 'tuned.attention.scalar.*.*.gain=1.5'
    exits 0
    says '^attention tuned: *tile_queries 32 instead of 16; 50.0 % faster'
fi
finish
