#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A command that ends while it writes, by a signal or because memory runs out, leaves no temporary files.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "what is preloaded would come into the emulator"
[ -z "${KT_TEST_SANITIZERS:-}" ] || skip "sanitizers have an allocator of their own"
build_shim
with_plugin amx_int8 || skip "the backend amx_int8 was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
folder=$dir/written

# end_at N COMMAND...: it ends at its Nth allocation after its temporary file was opened; false: it has no such one.
end_at()
{
    rm -rf "$folder" "$dir/mark"
    mkdir "$folder"
    FAIL_N=$1
    shift
    command_line="kt $*, ended at allocation $FAIL_N${FAIL_SIGNAL:+ by signal $FAIL_SIGNAL}"
    (
        FAIL_KINDS=1 FAIL_STICKY=1 FAIL_AFTER=.part FAIL_MARK=$dir/mark LD_PRELOAD=$SHIM
        export FAIL_KINDS FAIL_N FAIL_STICKY FAIL_AFTER FAIL_MARK LD_PRELOAD
        kt_run "$@"
    ) >"$out" 2>"$err"
    code=$?
    [ -z "$(find "$folder" -name '*.part')" ] || fail "it left $(find "$folder" -name '*.part')"
    [ -e "$dir/mark" ]
}

# end_often COMMAND...: the first dozen allocations one by one, later ones with growing steps.
end_often()
{
    n=1
    while end_at $n "$@"; do
        n=$((n + 1 + n / 12))
    done
    [ $n -gt 12 ] || fail "more than $n allocations are expected"
}

for FAIL_SIGNAL in '' 15; do
    [ -n "$FAIL_SIGNAL" ] && export FAIL_SIGNAL || unset FAIL_SIGNAL
    end_often forward -m "$model" -i "$trace" --layer 0 --output "$folder/o" --stats "$folder/s"
    if [ -x "$KT_TEST_BUILD/kt-engine" ] && with_plugin attention && with_plugin llamafile; then
        head -c 600 "$KT_TEST_SOURCE/COPYING" >"$dir/text"
        for n in 1 2 5; do # it reads the model first, which takes its time
            end_at $n perplexity "$data/tiny-moe-q4_k_m.gguf" "$dir/text" --context 16 --save-logits "$folder/logits" ||
                fail "allocation $n is expected"
        done
    fi
    end_often convert --input "$model" --output "$folder/store" --method AMXINT8 --layers 0
done
finish
