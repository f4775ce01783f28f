#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A model in several GGUF files gives what it gives in one, also converted.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
model=$data/tiny-moe-q4_k_m.gguf
parts=$dir/parts
first=$parts/m-00001-of-00003.gguf
mkdir "$parts"
command_line=gguf_parts
${EMULATOR:-} "$KT_TEST_BUILD/tests/support/gguf_parts" "$model" "$parts/m" 3 >"$out" 2>"$err" ||
    fail "it must succeed"

kt forward --model "$model" --input "$trace" --backend reference --output "$dir/whole"
exits 0
for path in "$first" "$parts/m-00003-of-00003.gguf" "$parts"; do
    kt inspect "$path"
    exits 0
    is_silent
    says '^files: *3$'
    says '^layers with experts: 4$'
    says '^ *3  *8  *2  *256  *256  q4_k  q4_k  q6_k '
done
says '^folder: '
kt inspect "$first" --tensors --format csv
exits 0
says '^blk.0.ffn_gate_exps.weight,q4_k,8x256x256,.*,m-0000[123]-of-00003.gguf'
kt inspect "$first"
says '^file: '
for path in "$parts/m-00002-of-00003.gguf" "$parts"; do
    kt forward --model "$path" --input "$trace" --backend reference --output "$dir/split"
    exits 0
    is_silent
    cmp "$dir/whole" "$dir/split" >/dev/null || fail "the outputs differ"
done

if with_plugin amx_int8; then
    kt convert --input "$model" --output "$dir/whole-store" --method AMXINT8
    exits 0
    kt convert --input "$first" --output "$dir/split-store" --method AMXINT8
    exits 0
    is_silent
    says '^ *3  q4_k .* stored$'
    kt verify "$dir/split-store"
    exits 0
    for store in whole split; do
        kt forward --model "$dir/$store-store" --input "$trace" --output "$dir/$store"
        exits 0
    done
    cmp "$dir/whole" "$dir/split" >/dev/null || fail "the outputs of the stores differ"
    # Opened by another file or by the folder it is the same checkpoint; with a changed file it is another.
    kt convert --input "$parts" --output "$dir/split-store" --method AMXINT8 --resume --format csv
    exits 0
    [ "$(grep -c ',kept' "$out")" -eq 4 ] || fail "all layers are kept"
    printf x | dd of="$parts/m-00003-of-00003.gguf" bs=1 seek=1000 conv=notrunc 2>/dev/null
    kt convert --input "$first" --output "$dir/split-store" --method AMXINT8 --resume
    exits 1
    warns 'another checkpoint'
fi

rm "$parts/m-00002-of-00003.gguf"
for path in "$first" "$parts"; do
    kt inspect "$path"
    exits 1
    warns '^kt inspect: error: .*m-00002-of-00003.gguf: cannot be opened'
done
finish
