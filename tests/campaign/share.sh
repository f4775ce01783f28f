#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The campaign's share of machines that are booted or emulated, some seconds: random batches on all nodes, and
# damaged files of two kinds. KT_TEST_SEED: other ones.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
seed=${KT_TEST_SEED:-1}
programs=$KT_TEST_BUILD/tests/campaign
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ATTACK_CPU=20 # a second of a CPU that is not emulated
export LD_LIBRARY_PATH ATTACK_CPU
with_plugin bf16 || true
with_plugin amx_int8 || true

# attack NAME COMMAND...: its table must have zeros only.
attack()
{
    command_line=$*
    "$@" >"$out" 2>"$err"
    code=$?
    exits 0
    tail -n 1 "$out" | grep -q '^[1-9][0-9]* 0 0 0 0 ' || fail "a row with tries and zeros is expected"
    tail -n 1 "$out"
}
batches=$programs/.libs/batches
[ -x "$batches" ] || batches=$programs/batches
# shellcheck disable=SC2086 # an emulator comes with its arguments
attack ${EMULATOR:-} "$batches" 15 "$seed" 20000
cp "$data/tiny-moe-bf16-l0-l3.gguf" "$dir/m.gguf"
if [ -n "${EMULATOR:-}" ]; then # it takes a second to start
    finish
fi
attack "$programs/attack" mutate 8 "$seed" "$dir/m.gguf" -- "$kt_program" \
    forward -m "$dir/m.gguf" -i "$trace" --layer 0
cp "$trace" "$dir/trace"
attack "$programs/attack" mutate 8 "$seed" "$dir/trace" -- "$kt_program" \
    forward -m "$dir/m.gguf" -i "$dir/trace" --layer 0
finish
