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

# ---- the whole model: libktengine, where it was built, and the plugin that computes rows ----
if [ -f "$KT_TEST_BUILD/libktengine.la" ] && [ -f "$KT_TEST_BUILD/kt_attention.la" ]; then
    printf '[core]\nplugin_path = %s\n[plugin.attention]\nenabled = yes\n' "$KT_TEST_BUILD/.libs" >"$dir/whole.ini"
    kt inspect "$model" --config "$dir/whole.ini"
    says '^family:  *qwen3moe$'
    says '^context:  *2048$'
    says_not 'cannot run it'
    kt inspect "$model"
    says '^family:  *qwen3moe$'
    says '^kt generate cannot run it: .*no loaded plugin computes rows'
    kt explain "$model" --config "$dir/whole.ini" --format json
    exits 0
    says '"family": "qwen3moe"'
    says '"cache_tokens": 2048'
    says_not attention_tuned
    awk -F'[:,]' '/^  "model_bytes"/ { all = $2 } /^  "(cache|model_weight|model_buffer|row|mapped)_bytes"/ { n++; sum += $2 }
        END { exit n != 5 || sum != all }' "$out" || fail "the parts must be the whole model"
    # Routers are not packed: they have a sum of their own.
    awk -F'[:,]' '/^  "linear_bytes"/ { packed = $2 } /^  "router_bytes"/ { routers = $2 }
        /"name"/ { named = 1; router = /ffn_gate_inp/ }
        /^ +"weight_bytes"/ && named { sum[router] += $2 }
        END { exit !(routers > 0 && routers == sum[1] && packed == sum[0]) }' "$out" ||
        fail "linears and routers must be counted apart"
    # A token goes through 2 experts of each layer and all linears but routers; nothing is packed here.
    says '^  "weight_bytes": 0,'
    says "^  \"token_bytes\": $(awk -F'[:,]' '/^  "/ { times = /"rows"/ ? 2 : 1 } /"name"/ { router = /ffn_gate_inp/ }
        /^ +"nominal_bytes"/ && !router { bytes += $2 * times } END { print bytes }' "$out"),"
    kt explain "$model" --config "$dir/whole.ini" --layers 0
    says_not 'family'
    # What is missing is named; the experts can be run.
    sed 's/blk\.2\.attn_k_norm/blk.2.attn_k_nirm/' "$model" >"$dir/nirm.gguf"
    kt inspect "$dir/nirm.gguf" --config "$dir/whole.ini"
    exits 0
    says '^kt generate cannot run it: .*blk\.2\.attn_k_n[io]rm'
    kt explain "$dir/nirm.gguf" --config "$dir/whole.ini"
    exits 0
    says '^kt generate cannot run it: .*blk\.2\.attn_k_n[io]rm'
    # Experts that one file lacks may come from another one.
    # names as long, with an ending that is ignored
    sed 's/blk\.2\.ffn_\([a-z]*\)_exps\.weight/blk.2.ffx_\1exps.k_scale/g' "$model" >"$dir/parts.gguf"
    kt inspect "$dir/parts.gguf" --config "$dir/whole.ini"
    says '^kt generate cannot run it: .*layer 2 holds no experts'
    for verb in inspect explain; do
        kt $verb "$dir/parts.gguf" --config "$dir/whole.ini" --experts "$model"
        exits 0
        says '^family:  *qwen3moe$'
        says_not 'cannot run it'
    done
    # A model of which there is nothing but config.json.
    config=$KT_TEST_SOURCE/tests/data/families/qwen3moe/config.json
    kt inspect "$config" --config "$dir/whole.ini" --format json
    exits 0
    says '"family": "qwen3moe"'
    says '"file_format": "config.json alone, no weights"'
    awk -F'[:,]' '/^  "model_bytes"/ { all = $2 } /^  "(cache|model_weight|model_buffer|row|mapped)_bytes"/ { n++; sum += $2 }
        END { exit n != 5 || sum != all || !all }' "$out" || fail "the parts must be the whole model"
    mkdir "$dir/alone" && sed 's/"hidden_size": *[0-9]*/"hidden_size": 1000000/' "$config" >"$dir/alone/config.json"
    kt inspect "$dir/alone" --config "$dir/whole.ini"
    exits 0
    says '^free memory: '
    sed 's/"hidden_act": *"silu"/"hidden_act": "tanh"/' "$config" >"$dir/alone/config.json"
    kt inspect "$dir/alone/config.json" --config "$dir/whole.ini"
    exits 0
    says "^kt generate cannot run it: config.json: the hidden_act 'tanh' is not computed"
    sed 's/^{/{ "quantization_config": { "quant_method": "quark" },/' "$config" >"$dir/alone/config.json"
    kt inspect "$dir/alone/config.json" --config "$dir/whole.ini"
    exits 0
    says "^The memory that it needs is not known: config.json: the sizes of weights that 'quark' quantized"
    sed 's/"vocab_size"/"vocabulary"/' "$config" >"$dir/alone/config.json"
    kt inspect "$dir/alone" --config "$dir/whole.ini"
    says '^kt generate cannot run it: config.json has no vocab_size'
    kt inspect "$dir/alone" --tensors
    exits 1
    warns 'no files of weights'
    echo '{' >"$dir/alone/config.json"
    kt inspect "$dir/alone" --config "$dir/whole.ini"
    says '^kt generate cannot run it: config.json:'
    # A dense model has linears, and is a whole model.
    sed 's/ffn_\([a-z]*\)_exps/ffn_\1_expt/g' "$model" >"$dir/dense.gguf"
    kt explain "$dir/dense.gguf" --config "$dir/whole.ini" --format csv
    exits 0
    kt explain "$dir/dense.gguf" --config "$dir/whole.ini" --layers 0
    exits 1
    warns 'holds no layer with experts'
    kt inspect "$model" --experts "$dir/gone.gguf"
    exits 1
    warns 'gone\.gguf'
    kt explain "$model" --config "$dir/whole.ini" --experts "$dir/gone.gguf"
    exits 1
    warns 'gone\.gguf'
fi

# ---- explain ----
kt explain --model "$model" --format csv
exits 0
[ "$(field 0 backend)" = reference ] || fail "nothing but the reference is configured"
[ "$(field 0 n_experts)" = 8 ] || fail "layer 0 has 8 experts"
kt explain --model "$model"
exits 0
says '^1-2  *q4_k  '
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
exits 2
warns nosuch
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
says '^0,3,1-2  *gone .*refused  *[a-z]'
kt explain --model "$model" --backend gone --format json
says '"fallback": true'
says '"n_fallbacks": 4'
kt explain --model "$model" --backend gone --set core.strict=yes
exits 1
warns '4 of 4 layers cannot be run'
rm "$dir/shipped/gone.ini"

# ---- layers that are alike at equal distances: a model of twelve layers, of which each third is float16
mkdir "$dir/twelve" && cd "$dir/twelve" || exit 99
awk 'BEGIN {
    for (l = 0; l < 12; l++)
        for (e = 0; e < 2; e++)
            for (p = 1; p <= 3; p++) {
                tensors = tensors sprintf("%s\"model.layers.%d.mlp.experts.%d.%s_proj.weight\":{\"dtype\":\"%s\",\"shape\":[32,32],\"data_offsets\":[%d,%d]}",
                    n ? "," : "", l, e, p == 1 ? "gate" : p == 2 ? "up" : "down", l % 3 == 2 ? "F16" : "BF16", 2048 * n, 2048 * (n + 1))
                n++
            }
    header = "{" tensors "}"
    while (length(header) % 8)
        header = header " "
    size = length(header)
    for (i = 0; i < 8; i++) {
        printf "\\%03o", size % 256 >"size"
        size = int(size / 256)
    }
    printf "%s", header >"header"
    print 8 + length(header) + 2048 * n >"bytes"
}'
# shellcheck disable=SC2059 # the number in octal
{ printf "$(cat size)"; cat header; } >"model.safetensors"
truncate -s "$(cat bytes)" "model.safetensors"
echo '{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_size":32,"num_hidden_layers":12,"moe_intermediate_size":32,"num_experts":2,"num_experts_per_tok":1}' >"config.json"
rm size header bytes
cd "$KT_TEST_BUILD" || exit 99
kt explain "$dir/twelve"
says '^0-1,3-4,\.\.\.,9-10  *bf16 '
says '^2,5,\.\.\.,11  *f16 '
kt explain "$dir/twelve" --layers 2,5,8
says '^2,5,8  *f16 '
kt explain "$dir/twelve" --format csv
[ "$(grep -c '^[0-9]*,bf16,' "$out"),$(grep -c '^[0-9]*,f16,' "$out")" = 8,4 ] || fail "CSV has a row for each layer"

# ---- GGUF files in a folder that is read as safetensors ----
says_not 'GGUF'
kt inspect "$dir/twelve"
says_not 'GGUF'
: >"$dir/twelve/a.gguf"
kt inspect "$dir/twelve"
exits 0
says '^The folder also holds 1 GGUF file: name the file'

# ---- linears ----
kt explain --model "$model" -v
exits 0
says '^packed linears:  *0 B$'
says '^LINEARS  *COUNT  *TYPE  *SHAPE  *BACKEND  *LEVEL  *WEIGHTS  *IN PLACE$'
says '^blk.0-3.attn_q  *4  q4_k  256x256  *reference  scalar  *0 B  yes$'
says '^blk.0-3.attn_v  *4  q6_k  128x256 '
says '^output  *1  q6_k  2048x256 '
says_not '^[^:]*\(token_embd\|norm\|_exps\)' # names of linears
kt explain --model "$model"
says '^LINEARS  *COUNT  *TYPE  *BACKEND  *LEVEL  *WEIGHTS  *IN PLACE$'
kt explain --model "$model" --layer 1,3 -v
exits 0
says '^blk.1,3.attn_k  *2  q4_k  128x256 '
says_not '^output '
kt explain --model "$model" --format json
exits 0
says '"n_linears": 21'
says '"n_linears_failed": 0'
says '"name": "blk.2.attn_output"'
[ "$(sed -n '/"linears": \[/,/^  \]/p' "$out" | grep -c '"name": ')" -eq 21 ] || fail "JSON has a row for each linear"
kt explain --model "$model" --format csv
[ "$(wc -l <"$out")" -eq 5 ] || fail "CSV has the layers only"
kt explain --model "$data/gptq-g128-l0"
exits 0
says_not '[Ll][Ii][Nn][Ee][Aa][Rr]'

mkdir "$dir/folder"
cp "$data/fp8-block-l0"/*.safetensors "$data/fp8-block-l0/config.json" "$dir/folder"
chmod -R u+w "$dir/folder"
q_proj='{"dtype":"BF16","shape":[64,128],"data_offsets":[0,16384]}'
bias='{"dtype":"BF16","shape":[64],"data_offsets":[16384,16512]}'
thin='{"dtype":"BF16","shape":[2,16],"data_offsets":[16512,16576]}'
row='{"dtype":"BF16","shape":[1,32],"data_offsets":[16576,16640]}'
words='{"dtype":"I32","shape":[8,8],"data_offsets":[16640,16896]}'
head -c 16896 /dev/zero | write_tensors "$dir/folder/one.safetensors" "{\"model.layers.0.self_attn.q_proj.weight\":$q_proj,\
\"model.layers.0.self_attn.q_proj.bias\":$bias,\"model.layers.0.thin.weight\":$thin,\
\"model.layers.0.row.weight\":$row,\"model.layers.0.o_proj.qweight\":$words}"
head -c 49280 /dev/zero | write_tensors "$dir/folder/two.safetensors" "{\"model.layers.1.self_attn.q_proj.weight\":$q_proj,\
\"model.layers.1.self_attn.q_proj.bias\":$bias,\"model.layers.2.self_attn.q_proj.weight\":\
$(echo "$q_proj" | sed 's/0,16384/16512,32896/'),\"model.embed_tokens.weight\":\
$(echo "$q_proj" | sed 's/0,16384/32896,49280/')}"
gate='{"dtype":"BF16","shape":[4,128],"data_offsets":[0,1024]}'
head -c 3072 /dev/zero | write_tensors "$dir/folder/three.safetensors" "{\"model.layers.0.mlp.gate.weight\":$gate,\
\"model.layers.1.mlp.gate.weight\":$(echo "$gate" | sed 's/BF16/F32/; s/0,1024/1024,3072/')}"
# Routers and embeddings by other names: of Granite and DBRX, Gemma 4, LongCat; DBRX, Sarvam
head -c 35840 /dev/zero | write_tensors "$dir/folder/four.safetensors" \
    "{\"model.layers.0.block_sparse_moe.router.layer.weight\":$gate,\
\"model.layers.0.router.proj.weight\":$(echo "$gate" | sed 's/0,1024/1024,2048/'),\
\"model.layers.0.mlp.router.classifier.weight\":$(echo "$gate" | sed 's/0,1024/2048,3072/'),\
\"transformer.wte.weight\":$(echo "$q_proj" | sed 's/0,16384/3072,19456/'),\
\"model.word_embeddings.weight\":$(echo "$q_proj" | sed 's/0,16384/19456,35840/')}"
kt explain "$dir/folder"
exits 0
says '^model.layers.0-1.self_attn.q_proj  *2  bf16  *reference '
says '^model.layers.2.self_attn.q_proj  *1  bf16  *reference '
says '^model.layers.0.o_proj  *1 '
says 'o_proj.qweight'
says_not '^[^:]*\(embed\|thin\|row\|wte\)'
kt explain "$dir/folder" --format json
exits 0
says '"n_linears": 9'
says '"n_linears_failed": 1'
says '"bias": true'
says "\"router_bytes\": $((4 * 4 * 128 * 2 + 4 * 128 * 4)),"

# A type that is not known is listed under the name that the file gives it.
header='{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},"b":{"dtype":"NEW","shape":[9],"data_offsets":[3,4]}}'
printf "\\$(printf %03o ${#header})\\000\\000\\000\\000\\000\\000\\000%sabcd" "$header" >"$dir/new.safetensors"
kt inspect "$dir/new.safetensors"
exits 0
is_silent
says '^F6_E2M3  *1  *3 B$'
says '^NEW  *1  *1 B$'
kt inspect --tensors "$dir/new.safetensors" --format csv
exits 0
says '^a,F6_E2M3,4,'
says '^b,NEW,9,'

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
