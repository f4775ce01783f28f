#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt bench on a small shape: what it prints must agree with itself. Nothing here judges a time.
set -u
build=${KT_TEST_BUILD:?}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
mkdir "$work/shipped"
KT_KERNEL_PLUGINCONFDIR=$work/shipped
export KT_KERNEL_PLUGINCONFDIR

fail()
{
    echo "FAILED: $*"
    cat "$work/out" "$work/err"
    failed=1
}

# The program itself, not the script around it: that takes longer than kt does. Only a static build has no other.
program=$build/.libs/kt
[ -x "$program" ] || program=$build/kt
kt()
{
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ${EMULATOR:-} "$program" "$@" \
        >"${output:-$work/out}" 2>"$work/err"
}

# rows_agree N_ROWS MAX_KERNEL_ERROR RUNS_TIMES_REPEATS: the JSON on standard input.
rows_agree() { ${EMULATOR:-} "$build/tests/kt/bench_rows" "$@"; }

# refuse STATUS WORDS ARGUMENTS...: the command must fail so and say why.
refuse()
{
    status=$1 words=$2
    shift 2
    kt bench --config "$work/kt.ini" "$@"
    got=$?
    [ $got -eq "$status" ] || fail "kt bench $*: exit $got, not $status"
    grep -q -- "$words" "$work/err" || fail "kt bench $*: does not say '$words'"
    [ ! -s "$work/out" ] || fail "kt bench $*: writes to standard output"
}

cat >"$work/kt.ini" <<INI
[plugin.llamafile]
enabled = no
[plugin.missing]
enabled = yes
module = $work/kt_missing.so
INI
small="--shape 256,256,4,2 --threads 2 --min-time 0.002 --cycle 2 --repeats 3 --runs 2"

# shellcheck disable=SC2086
kt bench --config "$work/kt.ini" $small --backend reference --source-type q4_k,bf16 --tokens 1,5 \
    --format json || fail "reference"
rows_agree 4 1e-4 6 <"$work/out" || fail "rows of the reference"
grep -q '"q4_k"' "$work/out" || fail "the source type is not named"

# shellcheck disable=SC2086
kt bench --config "$work/kt.ini" $small --backend reference --format csv || fail "csv"
head -n 1 "$work/out" |
    grep -q '^backend,level,source_type,hidden_size,.*,kernel_error,total_error,model_layers' ||
    fail "header of the CSV"
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "lines of the CSV"

# shellcheck disable=SC2086
kt bench --config "$work/kt.ini" $small --backend all || fail "every loaded backend"
grep -q '^reference  *scalar  *bf16' "$work/out" || fail "no row of the reference"
grep -q 'vfm\|mul\|fm' "$work/out" || fail "no instruction among the limits"

plugin=$build/.libs/kt_llamafile.so
if [ -f "$plugin" ]; then
    cat >"$work/llamafile.ini" <<INI
[plugin.llamafile]
enabled = yes
module = $plugin
INI
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --source-type q4_k,q8_0 \
        --tokens 1,40 --format json || fail "llamafile"
    rows_agree 4 2e-2 6 <"$work/out" || fail "rows of llamafile"
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --tokens 5 --format json --source-type \
        iq1_s,iq1_m,iq2_xxs,iq2_xs,iq2_s,iq3_xxs,iq3_s,tq1_0,tq2_0,nvfp4,q1_0,q2_0 || fail "i-quants"
    rows_agree 12 2e-2 6 <"$work/out" || fail "rows of i-quants"
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --level scalar \
        --format json ||
        fail "llamafile at its scalar level"
    rows_agree 1 2e-2 6 <"$work/out" || fail "row of llamafile at its scalar level"
    grep -q '"level": "scalar"' "$work/out" || fail "--level is not obeyed"
    # Every level that this CPU has, the best first; the others are said.
    kt backends --config "$work/llamafile.ini" --format csv llamafile || fail "kt backends"
    all=$(sed -n 's/^llamafile,[^,]*,[^,]*,\([^,]*\),.*/\1/p' "$work/out" | wc -w)
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --levels --tokens 1,3 --format csv ||
        fail "--levels"
    cut -d, -f2,8 "$work/out" | sed -n '2,/^\r*$/p' | grep -v '^[[:space:]]*$' >"$work/rows"
    ran=$(grep -c ',1$' "$work/rows") missing=$(grep -c 'note: backend llamafile, level ' "$work/err")
    [ "$ran" -ge 1 ] && [ $((ran + missing)) -eq "$all" ] || fail "--levels: $ran levels ran, $missing did not"
    [ "$(grep -c ',3$' "$work/rows")" -eq "$ran" ] || fail "--levels: not every level has every number of tokens"
    [ "$(tail -n 1 "$work/rows")" = scalar,3 ] || fail "--levels does not end with the scalar level"
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --levels --format json || fail "--levels"
    rows_agree "$ran" 2e-2 6 <"$work/out" || fail "rows of --levels"
    # Floats are multiplied as floats; on level amx many rows are not.
    # shellcheck disable=SC2086
    kt bench --config "$work/llamafile.ini" $small --backend llamafile --levels --source-type bf16 --tokens 1 ||
        fail "--levels of bf16"
    awk '$1 == "llamafile" && $2 != "amx" && $6 == "multiply" { n++ } / (vpmadd|vpdp|sdot|smull|usmmla)/ { bad = 1 }
        END { exit !n || bad }' "$work/out" || fail "bf16 is said to be limited by int8"
fi

# Experts with each activation; relu2 has two matrices instead of three.
for activation in silu swiglu swigluoai gelu_tanh swiglustep situ relu2; do
    # shellcheck disable=SC2086
    kt bench --config "$work/kt.ini" $small --backend reference --source-type bf16 --tokens 1 --format json \
        --activation "$activation" || fail "--activation $activation"
    rows_agree 1 1e-4 6 <"$work/out" || fail "rows of --activation $activation"
    [ "$(grep -c "\"activation\": \"$activation\"" "$work/out")" -eq 1 ] || fail "rows do not name $activation"
done
# shellcheck disable=SC2086
kt bench --config "$work/kt.ini" $small --backend reference --activation situ || fail "--activation"
grep -q '^layer: .*, activation situ$' "$work/out" || fail "the activation is not above the rows"
refuse 2 'activation relu2 is for experts' --activation relu2 --linear 96x256
refuse 2 'activation silu is for experts' --activation silu --dispatch
refuse 2 'attention goes with' --activation situ --attention gpt-oss
refuse 2 'activation' --activation relu

# Linears: the rows of a matrix are as those of experts.
linears="--config $work/kt.ini --threads 2 --min-time 0.002 --cycle 2 --repeats 3 --runs 2 --backend reference"
# shellcheck disable=SC2086
kt bench $linears --linear 96x256,32x64 --source-type q8_0,bf16 --tokens 1,3 --format json || fail "--linear"
rows_agree 8 1e-4 6 <"$work/out" || fail "rows of --linear"
[ "$(grep -c '"kind": "linear"' "$work/out")" -eq 8 ] || fail "rows do not say that they are linears"
# shellcheck disable=SC2086
kt bench $linears --linear 96x256 || fail "one matrix"
grep -q '^linear: *96x256$' "$work/out" || fail "the matrix is not above the rows"
refuse 2 '4096x2048,2048x4096' --linear 96,256
refuse 2 '4096x2048,2048x4096' --linear 96x256x2
refuse 2 '4096x2048,2048x4096' --linear -1x256
refuse 2 '4096x2048,2048x4096' --linear 0x256
refuse 2 'goes with no' --linear 96x256 --shape mixtral-8x7b
refuse 2 'not whole blocks of q4_k' --linear 96x100 --source-type q4_k --backend reference

# A checkpoint's own layers, one of each kind; a row is there as soon as it is measured.
if [ -f "$plugin" ]; then
    model=$KT_TEST_DATA/tiny-moe/tiny-moe-q4_k_m.gguf
    quick="--config $work/llamafile.ini --threads 2 --min-time 0.002 --cycle 2 --repeats 3 --runs 1"
    # shellcheck disable=SC2086
    kt bench "$model" $quick --tokens 1,5 --format json || fail "a model"
    rows_agree 4 2e-2 3 <"$work/out" || fail "rows of a model"
    grep -q '"model_layers": "0,3"' "$work/out" || fail "the layers of a kind"
    grep -q '"source_type": "q4_k q4_k q6_k"' "$work/out" || fail "the formats of a kind"
    # shellcheck disable=SC2086
    kt bench "$model" --layers 1 $quick --backend llamafile,reference || fail "a layer of a model"
    grep -q '^1  *llamafile  *[a-z0-9_]*  *q4_k  *1 ' "$work/out" || fail "the row of layer 1"
    grep -q '^1  *reference ' "$work/out" || fail "the row of the reference"
    [ "$(awk 'length > 100' "$work/out" | wc -l)" -eq 0 ] || fail "a line has more than 100 columns"
    # Columns stay in line when a longer name comes later.
    # shellcheck disable=SC2086
    kt bench "$model" --layers 1 $quick --backend llamafile,reference,llamafile || fail "three rows"
    [ "$(grep '^1 ' "$work/out" | sed 's/q4_k.*//' | awk '{ print length }' | sort -u | wc -l)" -eq 1 ] ||
        fail "rows are not in line"
    # Named backends, all of them, or none.
    # shellcheck disable=SC2086
    kt bench "$model" --layers 1 $quick --backend all --format csv || fail "all backends and a model"
    [ "$(grep -c '^[a-z].*,"*1"*,experts,silu.$' "$work/out")" -eq 2 ] || fail "every loaded backend runs the layer"
    # shellcheck disable=SC2086
    kt bench "$model" --layers 1 $quick --backend auto --format csv || fail "--backend auto"
    [ "$(grep -c ^llamafile, "$work/out")" -eq 1 ] || fail "auto is the one that would run it"
    # shellcheck disable=SC2086
    refuse 2 'has its own' "$model" --source-type q4_k
    refuse 2 'for experts out of random numbers' "$model" --activation situ
    sed 's/ffn_\([a-z]*\)_exps/ffn_\1_expt/g' "$model" >"$work/dense.gguf"
    refuse 1 'no layer has experts; measure the whole model' "$work/dense.gguf"
    refuse 2 'run no layer of' "$model" --latency
    # A row that cannot be written ends the measurement, before the record, which comes last.
    output=/dev/full
    # shellcheck disable=SC2086
    kt bench "$model" $quick --tokens 1,2 --record "$work/record"
    status=$?
    output=
    [ $status -eq 1 ] || fail "a full disk is not an error"
    [ ! -e "$work/record" ] || fail "it measures on after a full disk"
    [ "$(grep -c 'standard output: No space left' "$work/err")" -eq 1 ] || fail "a full disk is told once"
    refuse 2 'kt bench MODEL --layers 1' --layers 1
    refuse 1 'no experts' "$model" --layers 77
fi

# Layers that nothing takes, or not the named one, leave the others to run.
plugin=$build/.libs/kt_bf16.so
if [ -f "$plugin" ] && [ -f "$build/.libs/kt_llamafile.so" ] && command -v python3 >/dev/null; then
    cat "$work/llamafile.ini" - >"$work/two.ini" <<INI
[plugin.bf16]
module = $plugin
INI
    mkdir "$work/model"
    python3 - "$work/model" <<'END_OF_PYTHON' || fail "the model of two formats"
import json, struct, sys
header, size = {}, 0
for layer, dtype, bytes_ in ((0, "BF16", 2), (1, "F32", 4), (2, "BF16", 2)):
    rows = 64 if layer == 2 else 32
    for expert in range(2):
        for name, shape in (("gate_proj", [rows, 32]), ("up_proj", [rows, 32]), ("down_proj", [32, rows])):
            end = size + shape[0] * shape[1] * bytes_
            header[f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight"] = {
                "dtype": dtype, "shape": shape, "data_offsets": [size, end]}
            size = end
text = json.dumps(header).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"\x00\x3c" * (size // 2))
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "qwen3_moe", "num_experts_per_tok": 1, "hidden_act": "silu"}, file)
END_OF_PYTHON
    quick="--config $work/two.ini --threads 2 --min-time 0.002 --cycle 2 --repeats 3 --runs 1"
    # shellcheck disable=SC2086
    kt bench "$work/model" $quick --backend bf16
    [ $? -eq 1 ] || fail "a layer that is not taken is no problem"
    grep -q 'layers 1: backend bf16 does not take f32' "$work/err" || fail "the layer is not named"
    grep -q '^0  *bf16  *[a-z0-9_]*  *bf16  *2x32x32 ' "$work/out" || fail "the row of layer 0 with its shape"
    grep -q '^2  *bf16  *[a-z0-9_]*  *bf16  *2x32x64 ' "$work/out" || fail "the row of layer 2 with its shape"
    # shellcheck disable=SC2086
    kt bench "$work/model" $quick --set core.backend=bf16 --set core.strict=yes --format json
    [ $? -eq 1 ] || fail "a layer that no backend takes is no problem"
    grep -q 'error: layer 1: not supported by backend bf16' "$work/err" || fail "the layer is not named"
    [ "$(grep -c '"model_layers": "[02]"' "$work/out")" -eq 8 ] || fail "rows and limits of the others"
fi

# 4 experts of 3 x 256 x 256 float32, and a matrix of 640 x 512
for what in '3145728 experts --shape 256,256,4,2' '1310720 linear --linear 640x512'; do
    # shellcheck disable=SC2086
    set -- $what
    kt bench --load "$3" "$4" --backend reference --source-type f32 --threads 2 --runs 2 --config "$work/kt.ini" \
        --format json || fail "--load"
    tr -d ' ,"' <"$work/out" | awk -F: -v size="$1" -v kind="$2" '{ is[$1] = $2 }
        END { exit !(is["schema"] == "kt.bench.load" && is["source_bytes"] == size && is["kind"] == kind &&
            is["load_gbps"] > 0 && (is["load_gbps"] / is["copy_gbps"] - is["copy_fraction"]) ^ 2 < 1e-6) }' ||
        fail "--load: the row"
done
# More threads than CPUs take turns, which is no other program's fault.
# shellcheck disable=SC2086
kt bench $small --threads $(($(getconf _NPROCESSORS_ONLN) + 1)) --config "$work/kt.ini" --backend reference \
    --source-type f32 || fail "threads that take turns"
grep -q 'warning: [0-9]* threads take turns on [0-9]* CPU' "$work/err" || fail "threads that take turns are not told of"
kt bench --dispatch --config "$work/kt.ini" --threads 2 --format json || fail "--dispatch"
for field in n_threads spin_us dispatch_spinning_us dispatch_asleep_us idle_cpu_percent; do
    grep -q "\"$field\": [0-9]" "$work/out" || fail "--dispatch has no $field"
done
kt bench --latency --min-time 0.1 --config "$work/kt.ini" --threads 2 --format json || fail "--latency"
[ "$(grep -c '"start_us_median": [0-9]' "$work/out")" -eq 3 ] || fail "--latency has not three rows"
kt bench --latency --min-time 0.1 --config "$work/kt.ini" --threads 1 --set core.spin_us=0 || fail "--latency without spinning"
grep -q '^ *1  *0  *1000  *100 ' "$work/out" || fail "--latency: the gaps without spinning"
kt bench --limits --config "$work/kt.ini" --threads 2 --cycle 2 --format csv || fail "--limits"
[ "$(grep -c '^read,' "$work/out")" -eq 12 ] || fail "--limits has not twelve ways of reading"
grep -q '^multiply,' "$work/out" || fail "--limits has no multiply instruction"

# On a GPU's stream: the stand-in of tests/gpu.
stand_in=$build/tests/gpu/libstandin.so
if [ -f "$stand_in" ] && [ -z "${EMULATOR:-}" ]; then
    kt bench --stream --runtime "$stand_in" --config "$work/kt.ini" --threads 1 --min-time 0.01 --format csv ||
        fail "--stream"
    [ "$(cut -d, -f1-3 "$work/out" | tr -d '\r' | tr '\n' ' ')" = "launched,what,n_tokens stream,empty function, \
stream,two empty functions, stream,submit and sync,0 stream,submit and sync,1 graph,empty function, \
graph,two empty functions, graph,submit and sync,0 graph,submit and sync,1 " ] || fail "rows of --stream"
    kt bench --stream --runtime "$stand_in" --config "$work/kt.ini" --threads 1 --min-time 0.01 --format json ||
        fail "--stream"
    [ "$(grep -c '"us_added": -*[0-9]' "$work/out")" -eq 4 ] || fail "--stream: what a pair adds"
    [ "$(grep -c '"us_median": [0-9]' "$work/out")" -eq 8 ] || fail "--stream: medians"
    grep -q "\"runtime\": \"$stand_in\"" "$work/out" || fail "--stream: the runtime"
fi
refuse 1 '/nowhere/libcudart.so cannot be loaded' --stream --runtime /nowhere/libcudart.so
refuse 1 'neither an absolute path nor' --stream --runtime here/libcudart.so
refuse 1 'neither cudaLaunchHostFunc nor' --stream --runtime libc.so.6
refuse 2 'runtime x is for --stream' --runtime x
refuse 2 'different' --stream --limits
refuse 2 'none of --level' --levels --stream --backend reference

refuse 2 'tokens' --backend reference --tokens 0
refuse 2 'tokens' --backend reference --tokens ''
refuse 2 'mean qwen3-30b-a3b' --shape qwen3-30b-a3
refuse 2 'four numbers' --shape 256,256,4
refuse 2 'experts' --shape 256,256,4,5
refuse 2 'sizes' --shape 0,256,4,2
refuse 2 'types are' --source-type q9_k
refuse 2 'blocks of q4_k' --backend reference --shape 256,100,4,2 --source-type q4_k
refuse 2 'backend llamafile is disabled' --backend llamafile
refuse 2 'backend missing is failed' --backend missing
[ "$(grep -c 'kt_missing.so' "$work/err")" -eq 1 ] || fail "why it failed is told once"
refuse 2 'mean reference' --backend referense
refuse 2 'no backend but the reference' --shape 256,256,4,2
refuse 2 '--level' --level avx2
refuse 2 'different' --dispatch --limits
refuse 2 'none of --tokens' --load --limits
refuse 2 'none of --tokens' --load --tokens 1
refuse 2 'different' --latency --dispatch
refuse 2 'none of --level' --levels --level avx2 --backend reference
refuse 2 'none of --level' --levels --limits --backend reference
refuse 2 'by --backend' --levels
refuse 2 'by --backend' --levels --backend all
refuse 2 'backend missing is failed' --levels --backend missing
refuse 2 'runs' --runs 0

exit $failed
