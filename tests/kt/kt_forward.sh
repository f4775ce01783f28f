#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt forward on a trained model: errors against the recorded output, files written, and bad input.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
bf16=$data/tiny-moe-bf16-l0-l3.gguf
q4=$data/tiny-moe-q4_k_m.gguf

# ---- the reference backend gives each format's own error, 1e-4 off at most ----
# expect MODEL LAYER ERROR
expect()
{
    error=$(field "$2" recorded_error)
    compares "$error" '>=' "$(awk -v x="$3" 'BEGIN { print x - 1e-4 }')"
    compares "$error" '<=' "$(awk -v x="$3" 'BEGIN { print x + 1e-4 }')"
}
check_model()
{
    file=$data/$1
    shift
    kt forward --model "$file" --input "$trace" --check --backend reference --format csv
    exits 0
    while [ $# -gt 0 ]; do
        expect "$file" "$1" "$2"
        shift 2
    done
}
check_model tiny-moe-bf16-l0-l3.gguf 0 0 3 0
case $KT_TEST_DATA in
*/filled) # a tarball's models: derive.c made them of this one, so it differs from what was recorded by rounding alone
    check_model tiny-moe-q8_0-l0-l3.gguf 0 0.0026 3 0.0034 # all layers have the first one's input
    check_model tiny-moe-q4_k_m.gguf 0 0.0008 1 0.0011 2 0.0012 3 0.0011
    check_model tiny-moe-iq4_xs-l0-l3.gguf 0 0.0531 3 0.0638 # with scales of the largest weights, not the best
    between=0.057
    ;;
*)
    check_model tiny-moe-q8_0-l0-l3.gguf 0 0.0026 3 0.0032
    check_model tiny-moe-q4_k_m.gguf 0 0.0169 1 0.0530 2 0.0591 3 0.0233
    check_model tiny-moe-iq4_xs-l0-l3.gguf 0 0.0374 3 0.0461
    between=0.04
    ;;
esac

# ---- the plugin stays near the reference ----
if with_plugin llamafile; then
    for file in "$data"/*.gguf; do
        kt forward --model "$file" --input "$trace" --check --format csv
        exits 0
        for layer in 0 3; do
            [ "$(field $layer backend)" = llamafile ] || fail "llamafile must run layer $layer"
            compares "$(field $layer reference_error)" '<=' 2e-2
        done
    done
    # Weights used in place are multiplied as packed ones are: the same bits, however many threads.
    some=${KT_TEST_QUICK:+--layer 0}
    # shellcheck disable=SC2086 # two words
    for file in "$data"/*.gguf; do
        kt forward --model "$file" --input "$trace" $some --output "$dir/packed"
        exits 0
        for threads in 1 3; do
            kt forward --model "$file" --input "$trace" $some --output "$dir/in-place" --threads $threads \
                --set plugin.llamafile.repack=no
            exits 0
            cmp -s "$dir/packed" "$dir/in-place" || fail "with repack = no other bits come out"
        done
    done
    kt forward --model "$q4" --input "$trace" --layer 0-1 --tolerance 1e-9
    exits 1
    says 'above tolerance'
    warns '^kt forward: error: 2 of 2 layers are above the tolerance'
else
    echo "llamafile was not built: only the reference is checked"
fi

# ---- limits ----
kt forward --model "$bf16" --input "$trace" --backend reference --recorded-tolerance 1e-12
exits 1
says 'above tolerance'
kt forward --model "$data/tiny-moe-iq4_xs-l0-l3.gguf" --input "$trace" --backend reference \
    --recorded-tolerance $between --format csv
exits 1
[ "$(field 0 result)" = ok ] || fail "layer 0 is within $between"
[ "$(field 3 result)" = 'above tolerance' ] || fail "layer 3 is not"
kt forward --model "$q4" --input "$trace" --backend reference --layer 0 --format csv
exits 0
[ -z "$(field 0 recorded_error)" ] || fail "nothing is compared without --check"

# ---- layers ----
kt forward --model "$q4" --input "$trace" --backend reference --layer 1-2 --format csv
exits 0
[ "$(wc -l <"$out")" -eq 3 ] || fail "two layers were asked for"
kt forward --model "$q4" --input "$trace" --backend reference --layer 2,0,0-1,2 --format csv \
    --output "$dir/once.safetensors"
exits 0
[ "$(sed 1d "$out" | cut -d, -f1 | tr '\n' ' ')" = '2 0 1 ' ] || fail "each layer must run once"
kt inspect --tensors "$dir/once.safetensors" --format csv
exits 0
[ "$(grep -c '^layers\.' "$out")" -eq 3 ] || fail "the file must hold three outputs"
kt explain --model "$q4" --layer 0,0,3 --format csv
exits 0
[ "$(wc -l <"$out")" -eq 3 ] || fail "two layers were asked for"
kt forward --model "$bf16" --input "$trace" --layer 1
exits 1
warns 'layer 1'
kt forward --model "$q4" --input "$trace" --layer 9
exits 1
warns 'layer 9'

# ---- the output file ----
export_threads()
{
    kt forward --model "$q4" --input "$trace" --threads "$1" --output "$dir/out$1.safetensors"
    exits 0
}
export_threads 1
export_threads 2
export_threads 3
cmp "$dir/out1.safetensors" "$dir/out2.safetensors" || fail "two threads give other bits than one"
cmp "$dir/out1.safetensors" "$dir/out3.safetensors" || fail "three threads give other bits than one"
kt forward --model "$q4" --input "$trace" --io read --output "$dir/read.safetensors"
exits 0
cmp "$dir/out1.safetensors" "$dir/read.safetensors" || fail "--io read gives other bits"
[ "$(ls "$dir" | grep -c 'safetensors\.')" -eq 0 ] || fail "a temporary file is left"
kt inspect --tensors "$dir/out1.safetensors" --format csv
exits 0
says '^layers.0.output,f32,128x256,'
says '^layers.3.output,f32,128x256,'
# Two results in one file would be one.
for option in output record; do
    kt forward --model "$bf16" --input "$trace" --stats "$dir/one" --$option "$dir/./one"
    exits 1
    warns '/one is also that of --[a-z]*; choose another --[a-z]*$'
done
: >"$dir/two"
ln "$dir/two" "$dir/three"
kt forward --model "$bf16" --input "$trace" --stats "$dir/two" --record "$dir/three"
exits 1
[ ! -e "$dir/one" ] || fail "it was written"
# It is written also where the check fails, through a symbolic link, with the usual permissions.
: >"$dir/target.safetensors"
ln -s target.safetensors "$dir/link"
kt forward --model "$q4" --input "$trace" --layer 0 --recorded-tolerance 1e-12 --output "$dir/link"
exits 1
[ -h "$dir/link" ] && [ -s "$dir/target.safetensors" ] || fail "the link's target must be written"
[ "$(ls -l "$dir/target.safetensors" | cut -c1-10)" = -rw-r--r-- ] || fail "the mode must be 644"
kt forward --model "$bf16" --input "$trace" --layer 0 --output "$dir/no/such/folder"
exits 1
warns 'output .*no/such/folder: '
if [ -c /dev/full ]; then
    kt forward --model "$q4" --input "$trace" --layer 0 --output /dev/full
    exits 1
    warns 'output /dev/full: '
    [ -c /dev/full ] || fail "a device must stay a device"
fi
# Neither the model nor the input is replaced, under another name too.
cp "$bf16" "$dir/m.gguf"
cp "$trace" "$dir/t.safetensors"
chmod u+w "$dir/m.gguf" "$dir/t.safetensors"
ln "$dir/m.gguf" "$dir/hard"
ln -s t.safetensors "$dir/soft"
for name in m.gguf hard; do
    kt forward --model "$dir/m.gguf" --input "$dir/t.safetensors" --output "$dir/$name"
    exits 1
    warns "error: $dir/$name is the model itself; choose another --output"
done
for name in t.safetensors soft; do
    kt forward --model "$dir/m.gguf" --input "$dir/t.safetensors" --output "$dir/$name"
    exits 1
    warns "error: $dir/$name is the input itself; choose another --output"
done
cmp "$bf16" "$dir/m.gguf" && cmp "$trace" "$dir/t.safetensors" || fail "nothing may be written"
# A file that may not grow that far is an error, and no temporary file stays.
command_line="kt forward --output with ulimit -f"
mkdir "$dir/small"
(
    uncounted && ulimit -f 16 && kt_run forward --model "$q4" --input "$trace" --layer 0 --output "$dir/small/out"
) >"$out" 2>"$err"
code=$?
exits 1
warns 'output .*/small/out: cannot write: '
[ -z "$(ls -A "$dir/small")" ] || fail "a file is left"
# A run that fails leaves what was there.
echo precious >"$dir/precious"
kt forward --model "$bf16" --input "$trace" --layer 1 --output "$dir/precious"
exits 1
[ "$(cat "$dir/precious")" = precious ] || fail "the old file must stay"

# ---- input that does not fit: each message names the tensor ----
# edit FROM TO: a copy of the trace with a text of the same length in its header.
edit()
{
    LC_ALL=C sed "s/$1/$2/" "$trace" >"$dir/bad.safetensors"
    cmp -s "$trace" "$dir/bad.safetensors" && fail "the trace holds no $1"
    kt forward --model "$q4" --input "$dir/bad.safetensors" --layer 0 --check --backend reference
    exits 1
}
edit '"layers.0.topk_ids": {"dtype": "I64"' '"layers.0.topk_ids": {"dtype": "U64"'
warns 'tensor layers.0.topk_ids is u64, but must be i64'
edit 'layers.0.topk_weights' 'layers.0.topk_weightz'
warns 'layers.0.topk_weights'
edit 'layers.0.hidden_states' 'layers.0.hidden_statez'
warns 'layers.0.hidden_states'
edit '"layers.0.output": {"dtype": "F32"' '"layers.0.output": {"dtype": "I32"'
warns 'tensor layers.0.output is i32, but must be f32'
edit '"layers.0.output": {"dtype": "F32", "shape": \[128, 256\]' \
    '"layers.0.output": {"dtype": "F32", "shape": [256, 128]'
warns 'tensor layers.0.output has 256 rows, but hidden_states has 128'

# poke TENSOR BYTES: overwrites the first bytes of a tensor.
poke()
{
    cp "$trace" "$dir/bad.safetensors"
    chmod u+w "$dir/bad.safetensors"
    kt inspect "$trace" --tensors --format csv
    # shellcheck disable=SC2059 # the bytes are a format
    printf "$2" | dd of="$dir/bad.safetensors" bs=1 seek="$(field "$1" offset)" conv=notrunc 2>"$err"
    kt forward --model "$q4" --input "$dir/bad.safetensors" --layer 0 --check --backend reference
}
poke layers.0.topk_ids '\010'
exits 1
warns 'input .*/bad.safetensors: tensor layers.0.topk_ids: token 0, slot 0 asks for expert 8;'
# Before anything is computed, of a later layer too.
poke layers.3.topk_ids '\010'
kt forward --model "$q4" --input "$dir/bad.safetensors" --backend nosuch
exits 1
warns 'tensor layers.3.topk_ids: token 0, slot 0 asks for expert 8; there are 0 to 7'
poke layers.0.topk_ids '\377\377\377\377\377\377\377\377'
exits 0
poke layers.0.hidden_states '\300\177'
exits 1
says ' failed$'
warns 'above the tolerance or failed'
# A record of zeros: the error is infinite, and quantized weights have no limit that would tell.
cp "$trace" "$dir/bad.safetensors"
chmod u+w "$dir/bad.safetensors"
kt inspect "$trace" --tensors --format csv
dd if=/dev/zero of="$dir/bad.safetensors" bs=1 seek="$(field layers.0.output offset)" \
    count=$((128 * 256 * 4)) conv=notrunc 2>"$err"
kt forward --model "$q4" --input "$dir/bad.safetensors" --layer 0 --check --backend reference
exits 1
says ' inf .* failed$'

# A trace that this test writes itself: what was recorded with another model.
# write_trace TOKENS HIDDEN K
write_trace()
{
    a=$(($1 * $2 * 2))
    b=$((a + $1 * $3 * 8))
    c=$((b + $1 * $3 * 4))
    json=$(printf '{"layers.0.hidden_states":{"dtype":"BF16","shape":[%d,%d],"data_offsets":[0,%d]},' \
        "$1" "$2" $a)
    json=$json$(printf '"layers.0.topk_ids":{"dtype":"I64","shape":[%d,%d],"data_offsets":[%d,%d]},' \
        "$1" "$3" $a $b)
    json=$json$(printf '"layers.0.topk_weights":{"dtype":"F32","shape":[%d,%d],"data_offsets":[%d,%d]}}' \
        "$1" "$3" $b $c)
    head -c $c /dev/zero | write_tensors "$dir/own.safetensors" "$json"
}
write_trace 3 256 2
kt forward --model "$q4" --input "$dir/own.safetensors" --backend reference --check --format csv
exits 0
[ "$(field 0 n_tokens)" = 3 ] || fail "three tokens were given"
[ "$(field 0 result)" = 'not compared' ] || fail "there is nothing to compare with"
warns 'holds 1 of the model.s 4 layers'
write_trace 3 512 2
kt forward --model "$q4" --input "$dir/own.safetensors"
exits 1
warns 'layers.0.hidden_states has 512 columns, but the model.s hidden size is 256'
write_trace 3 256 9
kt forward --model "$q4" --input "$dir/own.safetensors"
exits 1
warns 'layers.0.topk_ids has 9 columns, but the layer has 8 experts'
kt forward --model "$trace" --input "$trace"
exits 1
warns 'no layer with experts'
kt forward --model "$q4" --input "$q4"
exits 1
warns 'holds no tensor layers.N.hidden_states'
kt forward --model "$dir/nothing" --input "$trace"
exits 1
warns '^kt forward: error: .*nothing'

# ---- a backend that cannot be had ----
kt forward --model "$q4" --input "$trace" --backend nosuch
exits 1
warns 'no backend nosuch is configured'
printf '[plugin.gone]\nmodule = kt_gone.so\n' >"$dir/shipped/gone.ini"
kt forward --model "$q4" --input "$trace" --backend gone --layer 0
exits 0
warns '^kt forward: warning: layer 0: [a-z]* runs instead of gone: '
kt forward --model "$q4" --input "$trace" --backend gone --layer 0 --set core.strict=yes
exits 1
# Who refused a layer that nobody may take, and why, is shown all the same.
kt explain --model "$q4" --backend gone --layer 0 --set core.strict=yes
exits 1
says '^0  *gone  *refused  *[^ ]'
warns '1 of 1 layers cannot be run'
finish
