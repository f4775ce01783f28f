#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt convert and kt verify: a store gives the bits of its source; runs that were killed are gone on with.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin amx_int8 || skip "the backend amx_int8 was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
store=$dir/store

# The same output by both ways.
forward_same()
{
    kt forward --model "$model" --input "$trace" --backend amx_int8 --output "$dir/a.safetensors" "$@"
    exits 0
    kt forward --model "$store" --input "$trace" --output "$dir/b.safetensors" --check "$@"
    exits 0
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the outputs differ"
}

kt convert --input "$model" --output "$store" --method AMXINT8
exits 0
is_silent
says '^ *0  bf16 .* stored$'
says '^memory for packed experts: '
kt verify "$store"
exits 0
says '^ *3  amx_int8  amx_int8-1 .* ok$'
kt inspect "$store"
exits 0
says 'amx_int8-1'
kt explain --model "$store"
exits 0
says 'amx_int8-1 .*amx_int8'
forward_same
forward_same --threads 1
forward_same --io read
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
kt forward --model "$store" --input "$trace" --check
exits 0
says '^NUMA nodes: *2'
unset HWLOC_SYNTHETIC

# What is there is kept, and only with --resume.
kt convert --input "$model" --output "$store" --method AMXINT8
exits 1
warns '--resume'
rm "$store/layer-00003.safetensors"
kt convert --input "$model" --output "$store" --method amx_int8 --resume --format csv
exits 0
[ "$(grep -c ',kept' "$out"),$(grep -c ',stored' "$out")" = 1,1 ] || fail "one layer is kept, one stored"
forward_same
kt convert --input "$data/tiny-moe-q8_0-l0-l3.gguf" --output "$store" --method AMXINT8 --resume
exits 1
warns 'another checkpoint'
kt convert --input "$store" --output "$dir/again" --method AMXINT8
exits 1
warns 'packed already'
kt forward --model "$store" --input "$trace" --backend reference
exits 0
warns 'amx_int8 runs instead of the preferred backend'
kt forward --model "$store" --input "$trace" --backend reference --set core.strict=yes
exits 1
warns 'stored for backend amx_int8'

# A method that cannot take the weights: the reason stands once, and the plugin's name is not repeated in it.
if with_plugin avx512_fp8; then
    kt convert "$model" --output "$dir/refused" --method FP8
    exits 1
    [ "$(grep -c 'projection is bf16' "$err")" -eq 1 ] || fail "the reason must stand once"
    warns 'not supported by the preferred backend avx512_fp8: the gate'
    warns 'error: layer 0: not supported by backend avx512_fp8; choose another'
    kt convert "$model" --output "$dir/refused" --method FP8 --set core.strict=yes
    exits 1
    [ "$(grep -c 'projection is bf16' "$err")" -eq 1 ] || fail "the reason must stand once"
    rm "$dir/shipped/avx512_fp8.ini"
fi

# Killed at any time: no file with its own name is less than whole.
if [ -z "${EMULATOR:-}" ]; then
    for delay in 0.002 0.004 0.006 0.008 0.010 0.012 0.015 0.020 0.030; do
        command_line="kt convert, killed after $delay s"
        # The program itself: of a script, the shell would be killed and kt would go on.
        (uncounted && LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs timeout -s KILL $delay "$KT_TEST_BUILD/.libs/kt" convert --input "$model" \
            --output "$dir/killed" --method AMXINT8 --resume >/dev/null 2>&1) 2>/dev/null
        [ -z "$(ls "$dir/killed" 2>/dev/null)" ] || {
            kt verify "$dir/killed"
            exits 0
        }
    done
    kt_after_kill convert --input "$model" --output "$dir/killed" --method AMXINT8 --resume
    exits 0
    cmp "$store/layer-00000.safetensors" "$dir/killed/layer-00000.safetensors" || fail "the stores differ"
    [ "$(ls -A "$dir/killed" | wc -l)" -eq 2 ] || fail "a temporary file is left"
fi

# Damage is found by both, and named.
printf x | dd of="$store/layer-00003.safetensors" bs=1 seek=300000 conv=notrunc 2>/dev/null
kt verify "$store"
exits 1
says 'damaged .*layer-00003.safetensors: offset [0-9]*: gate and up of expert'
kt forward --model "$store" --input "$trace" --layer 3
exits 1
warns 'is not what was stored'
kt forward --model "$store" --input "$trace" --layer 0
exits 0
kt convert --input "$model" --output "$store" --method AMXINT8 --resume
exits 0
warns 'it is made again'
kt verify "$store"
exits 0
forward_same
rm "$store/layer-00000.safetensors"
kt verify "$store"
exits 0
warns '1 of the model.s 2 layers with experts are not in it, the first is 0'
mv "$store/layer-00003.safetensors" "$store/layer-00000.safetensors"
kt convert --input "$model" --output "$store" --method AMXINT8 --resume
exits 1
warns 'call it layer-00003'

# A signal leaves nothing that is half written.
if [ -z "${EMULATOR:-}" ]; then
    for delay in 0.003 0.006 0.010 0.015; do
        command_line="kt convert, ended after $delay s"
        rm -rf "$dir/ended"
        (uncounted && LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs timeout -s TERM $delay "$KT_TEST_BUILD/.libs/kt" convert \
            --input "$model" --output "$dir/ended" --method AMXINT8 >"$out" 2>"$err") || true
        [ -z "$(ls -A "$dir/ended" 2>"$err" | grep part)" ] || fail "a part is left: $(ls -A "$dir/ended")"
    done
fi

# Bad usage and places that cannot be written.
kt convert --input "$model" --output "$dir/x"
exits 2
kt convert --input "$model" --output "$dir/x" --method AMXINT9
exits 2
warns '[-][-]method AMXINT9: neither a method .*, did you mean AMXINT4?'
kt convert "$model" --output "$dir/x" --backend AMXINT9
exits 2
warns '[-][-]backend AMXINT9: neither'
kt convert --input "$model" --output "$dir/x" --method reference
exits 1
warns 'cannot be stored'
kt convert --input "$model" --output "$model" --method AMXINT8
exits 1
warns 'folder'
kt convert --input "$model" --output "$dir/x" --method auto
exits 2
warns '[-][-]method needs the name of a method or backend, not auto'
[ ! -e "$dir/x" ] || fail "a folder was made"
mkdir "$dir/busy"
(
    flock -n 9 || exit 1
    kt_run convert --input "$model" --output "$dir/busy" --method AMXINT8 >"$out" 2>"$err"
) 9<"$dir/busy"
code=$?
exits 1
warns 'another kt convert'
kt convert --input "$model" --output "$dir/no/such/folder" --method AMXINT8
exits 1
mkdir "$dir/other"
cp "$trace" "$dir/other/"
kt convert --input "$model" --output "$dir/other" --method AMXINT8 --resume
exits 1
warns 'not a part of a store'
kt verify "$model"
exits 1
warns 'no checksums'
kt verify
exits 2
mkdir "$dir/pipe"
mkfifo "$dir/pipe/.layer-00000.part"
kt convert --input "$model" --output "$dir/pipe" --method AMXINT8
exits 1
warns 'not a regular file: remove it'
command_line="kt convert on a full disk"
(uncounted && ulimit -f 500 && kt_run convert --input "$model" --output "$dir/full" --method AMXINT8) >"$out" 2>"$err"
code=$?
exits 1
warns 'cannot be'
[ -z "$(ls -A "$dir/full")" ] || fail "a part of a file is left"
finish
