#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt inspect and kt explain.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
model=$data/tiny-moe-q4_k_m.gguf

# ---- inspect ----
kt inspect "$model"
exits 0
is_silent
says '^architecture:  *qwen3moe$'
says '^layers with experts: 4$'
for io in mmap read; do
    kt inspect "$model" --io $io --format csv
    exits 0
    [ "$(wc -l <"$out")" -eq 5 ] || fail "there are four layers"
    [ "$(field 3 n_experts)" = 8 ] || fail "layer 3 has 8 experts"
    [ "$(field 3 top_k)" = 2 ] || fail "layer 3 uses 2"
    [ "$(field 3 hidden_size)" = 256 ] || fail "its hidden size is 256"
    [ "$(field 3 down)" = q6_k ] || fail "its down projection is q6_k"
    [ "$(field 1 down)" = q4_k ] || fail "layer 1 has a q4_k one"
done
kt inspect "$model" --layer 3 --format json
exits 0
says '"name": "blk.3.ffn_down_exps.weight"'
says_not '"name": "blk.2'
kt inspect "$model" --tensors --format csv
exits 0
says '^blk.0.ffn_gate_exps.weight,q4_k,8x256x256,'
says '^token_embd.weight,'
kt inspect "$model" --tensors --layer 3 --format csv
exits 0
says '^blk.3.'
says_not '^token_embd'
kt inspect "$model" --layer 9
exits 1
warns 'layer 9'
kt inspect "$trace" --tensors --format csv
exits 0
says '^layers.0.topk_ids,i64,128x2,'
kt inspect "$trace"
exits 0
says '^format:  *safetensors'

# Files that are not what they should be.
kt inspect "$KT_TEST_SOURCE/COPYING"
exits 1
warns '^kt inspect: error: .*COPYING'
kt inspect "$dir"
exits 1
: >"$dir/empty.gguf"
kt inspect "$dir/empty.gguf"
exits 1
for n in 3 4 100 5000 100000; do
    head -c $n "$model" >"$dir/cut.gguf"
    for io in mmap read; do
        kt inspect "$dir/cut.gguf" --io $io
        exits 1
        warns '^kt inspect: error: .*cut.gguf'
    done
done

# ---- explain ----
kt explain --model "$model" --format csv
exits 0
[ "$(field 0 backend)" = reference ] || fail "nothing but the reference is configured"
[ "$(field 0 n_experts)" = 8 ] || fail "layer 0 has 8 experts"
kt explain --model "$model"
exits 0
says '^1-2  *q4_k  *8x256x256 '
kt explain --model "$model" --layer 1,3 --format csv
exits 0
[ "$(wc -l <"$out")" -eq 3 ] || fail "two layers were asked for"
kt explain --model "$model" --layer 9
exits 1
warns 'layer 9'
kt explain --model "$trace"
exits 1
warns 'no layer with experts'
kt explain --model "$model" --backend nosuch
exits 1
says 'nosuch'
kt explain --model "$model" --max-tokens 4 --format json
exits 0
says '"max_tokens": 4'
small=$(sed -n 's/^  "buffer_bytes": \([0-9]*\).*/\1/p' "$out")
kt explain --model "$model" --max-tokens 4096 --format json
large=$(sed -n 's/^  "buffer_bytes": \([0-9]*\).*/\1/p' "$out")
compares "$large" '>=' "$((small + 1))"

# A wish that is not granted is a fallback with a reason, or an error with strict.
printf '[plugin.gone]\nmodule = kt_gone.so\n' >"$dir/shipped/gone.ini"
kt explain --model "$model" --backend gone
exits 0
says '^0,3  *gone .*refused  *[a-z]'
kt explain --model "$model" --backend gone --format json
says '"fallback": true'
says '"n_fallbacks": 4'
kt explain --model "$model" --backend gone --set core.strict=yes
exits 1
warns '4 of 4 layers cannot be run'
rm "$dir/shipped/gone.ini"

if with_plugin llamafile; then
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = llamafile ] || fail "llamafile takes q4_k"
    weights=$(field 0 weight_bytes)
    source=$(field 0 source_bytes)
    compares "$weights" '>=' "$source"
    compares "$weights" '<=' "$((source + source / 20))"
    [ "$(field 0 keeps_source)" = false ] || fail "llamafile packs weights"
    kt explain --model "$model" --format csv --set plugin.llamafile.repack=no
    exits 0
    [ "$(field 0 backend)" = llamafile ] || fail "llamafile takes q4_k in place"
    [ "$(field 0 weight_bytes)" = 0 ] || fail "weights that are used in place are not copied"
    [ "$(field 0 keeps_source)" = true ] || fail "weights are used in place"
fi
finish
