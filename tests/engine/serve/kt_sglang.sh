#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run --engine sglang: the command lines for checkpoints and machines, what is said where something is missing, and
# a server that ends. Python, SGLang and nvidia-smi are stand-ins; tests/python/test_sglang_args.py has SGLang's parser.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "a program that is emulated cannot execute another one"
[ -x "$(dirname "$kt_program")/kt-serve" ] || skip "kt-serve was not built"
for plugin in bf16 rawint4 avx512_fp8 llamafile; do
    with_plugin $plugin || skip "the backend $plugin was not built"
done
unset VIRTUAL_ENV CUDA_VISIBLE_DEVICES
real_python=$(command -v "${PYTHON:-python3}")
unset PYTHON
dir=$(cd "$dir" && pwd -P)
data=$(cd "$data" && pwd -P)
HWLOC_SYNTHETIC='numa:1 core:4 pu:2'
export HWLOC_SYNTHETIC

# ---- stand-ins ----
mkdir "$dir/bin" "$dir/sglang" "$dir/machine"
PATH=$dir/bin:$PATH
stand_in()
{
    { echo '#!/bin/sh' && cat; } >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
# A Python as the file `installed` says, with a parser that does not know the options in `unknown`; as a server it does
# what the file `server` says.
stand_in python3 <<END
[ "\$1" = -m ] && { shift 2 && echo "\$@" >"$dir/started" && exec sh "$dir/server"; }
case \$3 in
look) cat "$dir/installed" ;;
check) cat "$dir/unknown" ;;
place) cat >"$dir/placed" && : >"\$4" && echo "\$5 \$6" >"$dir/sizes" ;;
esac
END
installed()
{
    printf '%s\n' "python /usr/bin/python3" "sglang $1" "version 0.7.2" "layer $2" "kernel $3" "ours $4" >"$dir/installed"
}
installed "$dir/sglang" 1 /usr/lib/kt_kernel 1
: >"$dir/unknown"
gpus()
{
    for row; do echo "$row"; done >"$dir/machine/gpus"
    stand_in nvidia-smi <<END
cat "$dir/machine/gpus"
END
}
run()
{
    kt run --engine sglang "$@"
}
# words PART...: each must be in the command line, followed by a blank or its end.
words()
{
    for part; do
        grep -q -e "[ ]$part\( \|$\)" "$out" || fail "the command must hold: $part"
    done
}

# ---- checkpoints ----
command_line="all families"
families=$KT_TEST_BUILD/tests/engine/families/write_family
for family in dbrx deepseek-v3 glm4moe kimi-k2 longcat_flash minimax-m2 mixtral qwen35moe qwen3next; do
    [ -x "$families" ] || break
    "$families" "$KT_TEST_SOURCE/tests/data/families" $family "$dir/$family" || fail "write_family"
    run "$dir/$family" --gpu-memory 24G --dry-run
    exits 0
    is_silent
    words "-m sglang.launch_server" "--model-path $dir/$family" "--kt-weight-path $dir/$family" "--kt-method BF16" \
        "--served-model-name $family" "--host 127.0.0.1" "--port 30000" "--tensor-parallel-size 1"
    says_not '0\.0\.0\.0\|trust'
done
refuses_family()
{
    [ -x "$families" ] || return 0
    "$families" "$KT_TEST_SOURCE/tests/data/families" "$1" "$dir/$1" || fail "write_family"
    run "$dir/$1" --gpu-memory 24G --dry-run
    exits 1
    warns "$2"
}
refuses_family qwen3 'the checkpoint has no experts that a CPU could compute'
refuses_family gpt-oss 'the experts have biases'
refuses_family llama4 'the router.s weight is multiplied into what experts read'
while read -r folder method; do
    model=$data/$folder-l0
    run "$model" --gpu-memory 24G --dry-run
    exits 0
    words "--kt-method $method" "--kt-weight-path $model"
done <<'END'
fp8-block FP8
fp8-channel FP8_PERCHANNEL
gptq-g128 GPTQ_INT4
int4-g32 RAWINT4
mxfp4 MXFP4
mxfp8 MXFP8
END
run "$data/tiny-moe-q4_k_m.gguf" --gpu-memory 24G --dry-run
exits 1
warns 'SGLang loads a folder of safetensors files.*--experts'
model=$data/fp8-block-l0
run "$model" --experts "$data/tiny-moe-q4_k_m.gguf" --gpu-memory 24G --dry-run
exits 0
words "--model-path $model" "--kt-weight-path $data/tiny-moe-q4_k_m.gguf" "--kt-method LLAMAFILE"
says_not threshold
run "$model" --kt-method AMXINT4 --gpu-memory 24G --dry-run
exits 1
warns 'method AMXINT4: .*amx_int4'
run "$dir/nowhere" --gpu-memory 24G
exits 1
warns 'nowhere: No such file'

# ---- sizes: 4 layers of 64 experts, as large as real ones; their weights are a hole in a file ----
big=$dir/big
mkdir "$big"
cat >"$big/config.json" <<'END'
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 2048,
 "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 64, "num_experts_per_tok": 8,
 "moe_intermediate_size": 1024, "intermediate_size": 6144, "max_position_embeddings": 65536, "vocab_size": 151936,
 "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16"}
END
header=$(awk 'function add(name, rows, columns) {
        printf "%s\"%s\": {\"dtype\": \"BF16\", \"shape\": [%d, %d], \"data_offsets\": [%.0f, %.0f]}", comma, name, rows,
            columns, at, at + 2 * rows * columns
        at += 2 * rows * columns
        comma = ", "
    }
    BEGIN {
        printf "{"
        add("model.embed_tokens.weight", 151936, 2048)
        for (l = 0; l < 4; l++)
            for (e = 0; e < 64; e++) {
                expert = "model.layers." l ".mlp.experts." e "."
                add(expert "gate_proj.weight", 1024, 2048)
                add(expert "up_proj.weight", 1024, 2048)
                add(expert "down_proj.weight", 2048, 1024)
            }
        printf "}"
    }')
"$real_python" - "$big/model.safetensors" "$header" <<'END' || fail "a file of weights"
import struct, sys
header = sys.argv[2].encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    file.truncate(8 + len(header) + 2 * 2048 * (151936 + 4 * 64 * 3 * 1024))
END
# fits GIB FRACTION TOKENS GPUS [USED]: experts of a layer on each GPU, by hand; USED MiB others have.
fits()
{
    awk -v gib="$1" -v fraction="$2" -v tokens="$3" -v n="$4" -v used="${5:-0}" 'BEGIN {
        budget = gib * 2^30 * fraction - used * 2^20 - 151936 * 2048 * 2 / n - tokens * 4 / n * 256 * 4 * 2 - 1.5e9
        experts = int(budget / (4 * 3 * 2048 * 1024 * 2 / n))
        print experts < 64 ? experts : 64 }'
}
run "$big" --gpu-memory 5G --gpu-prefill-threshold 0 --dry-run
exits 0
is_silent
words "--kt-num-gpu-experts $(fits 5 0.85 65536 1)" "--mem-fraction-static 0.85" "--context-length 32768" \
    "--chunked-prefill-size 4096" "--kt-cpuinfer 2" "--kt-threadpool-count 1" "--kt-numa-nodes 0"
says_not 'max-total-tokens\|prefill-token-threshold'
run "$big" --gpu-memory 4G,4G --gpu-prefill-threshold 0 --dry-run --max-total-tokens 100000 --mem-fraction-static 0.8
words "--kt-num-gpu-experts $(fits 4 0.8 100000 2)" "--tensor-parallel-size 2" "--max-total-tokens 100000"
# A GPU computes whole layers where copying them is faster; that takes room.
run "$big" --gpu-memory 6G --dry-run --threads 2
words "--kt-cpuinfer 2" "--kt-gpu-prefill-token-threshold [1-9][0-9]*" "--chunked-prefill-size [1-9][0-9]*"
says "--mem-fraction-static 0\.7"
# Where it does not fit, first this goes, then the second context.
run "$big" --gpu-memory 2.75G --dry-run
words "--kt-num-gpu-experts $(fits 2.75 0.85 32768 1)" "--mem-fraction-static 0.85"
says_not prefill-token
run "$big" --gpu-memory 2G --dry-run
exits 1
warns 'a GPU of 2.1 GB does not have enough memory.*weights other than experts require 0.6 GB'
run "$big" --gpu-memory 2G --gpu-experts 0 --dry-run
exits 0
words "--kt-num-gpu-experts 0"
run "$big" --gpu-memory 5G --gpu-experts 65 --dry-run
exits 2
run "$big" --gpu-memory 5G,5G,5G --dry-run
words "--tensor-parallel-size 2"
run "$big" --gpu-memory 5G --tensor-parallel-size 3 --dry-run
exits 2
run "$big" --gpu-memory 5G,x --dry-run
exits 2

# ---- GPUs ----
stand_in nvidia-smi <<'END'
exit 9
END
run "$big" --dry-run
exits 1
warns 'SGLang computes attention on GPUs: nvidia-smi lists none; kt run without --engine'
one="0, GPU-aa, 5120, 0, 8.9, 4, 16, A, with a comma"
two="1, GPU-bb, 4096, 500, 8.9, 4, 16, B"
gpus "$one"
run "$big" --dry-run --gpu-prefill-threshold 0
words "--kt-num-gpu-experts $(fits 5 0.85 65536 1)" "--tensor-parallel-size 1"
gpus "$one" "$two"
run "$big" --dry-run
words "--tensor-parallel-size 2"
for visible in 1 GPU-b 1,7,0; do
    CUDA_VISIBLE_DEVICES=$visible
    export CUDA_VISIBLE_DEVICES
    run "$big" --dry-run --gpu-prefill-threshold 0 --context 1024
    words "--tensor-parallel-size 1" "--kt-num-gpu-experts $(fits 4 0.85 2048 1 500)"
done
CUDA_VISIBLE_DEVICES=
run "$big" --dry-run
exits 1
warns 'CUDA_VISIBLE_DEVICES hides all'
unset CUDA_VISIBLE_DEVICES
# An older driver does not know all fields.
stand_in nvidia-smi <<'END'
case $1 in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;; esac
echo "0, GPU-aa, 5120, 0, A"
END
run "$big" --dry-run --gpu-prefill-threshold 0
words "--kt-num-gpu-experts $(fits 5 0.85 65536 1)"

# ---- cores ----
HWLOC_SYNTHETIC='numa:2 core:4 pu:1'
run "$big" --dry-run
words "--kt-threadpool-count 2" "--kt-numa-nodes 0 1" "--kt-cpuinfer 6" # one is for SGLang, one for CUDA
run "$big" --dry-run --numa-nodes 1
words "--kt-threadpool-count 1" "--kt-numa-nodes 1" "--kt-cpuinfer 2"
run "$big" --dry-run --kt-numa-nodes 1 --kt-numa-nodes 0 --kt-cpuinfer 6
words "--kt-threadpool-count 2" "--kt-cpuinfer 6"
run "$big" --dry-run --kt-threadpool-count 1
words "--kt-threadpool-count 1" "--kt-numa-nodes 0"
run "$big" --dry-run --kt-threadpool-count 3
exits 2
unset HWLOC_SYNTHETIC
if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
    built=$kt_program
    stand_in tight <<END
exec taskset -c 0 "$built" "\$@"
END
    kt_program=$dir/bin/tight
    run "$big" --dry-run
    words "--kt-cpuinfer 1"
    kt_program=$built
fi
HWLOC_SYNTHETIC='numa:1 core:4 pu:2'
export HWLOC_SYNTHETIC

# ---- options ----
run "$model" --dry-run -H 0.0.0.0 -p 8000 --served-model-name "a b" --context 512 --max-running 4 --api-key 'it'\''s' \
    --trust-remote-code --attention-backend triton --kt-enable-dynamic-expert-update --watchdog-timeout 9 \
    --kt-max-deferred-experts-per-token 2 --kt-expert-placement-strategy front-loading --log-level access \
    --nnodes 2 --node-rank 1 --dist-init-addr host:1 -- --tool-call-parser qwen25
exits 0
words "--host 0.0.0.0" "--port 8000" "--served-model-name 'a b'" "--api-key 'it'\\\\''s'" "--context-length 512" \
    "--max-running-requests 4" "--trust-remote-code" "--attention-backend triton" "--log-level info" "--nnodes 2" \
    "--kt-enable-dynamic-expert-update" "--kt-max-deferred-experts-per-token 2" "--watchdog-timeout 9" \
    "--kt-expert-placement-strategy front-loading" "--node-rank 1" "--dist-init-addr host:1" \
    "--tensor-parallel-size 2" "--tool-call-parser qwen25"
# KTransformers' names; what stands behind -- wins, and counts.
run --model-path "$model" --weights-path "$model" --kt-num-gpu-experts 3 --tp 1 --max-running-requests 5 --dry-run \
    --disable-shared-experts-fusion --kt-gpu-prefill-threshold 7 -- --port 9 --kt-num-gpu-experts 2 --mem-fraction-static=0.5
exits 0
words "--port 9" "--kt-num-gpu-experts 2" "--max-running-requests 5" "--kt-gpu-prefill-token-threshold 7" \
    "--disable-shared-experts-fusion"
says_not 'port 30000\|experts 3\|static 0.8'
run "$model" --dry-run -- --pp-size 1 --tp-size 2
exits 2
run "$model" --dry-run -- --pp-size 0
exits 2
warns '0 GPUs, machines, stages or copies are too few'
for wrong in "--kv q8_0" "--cors all" "--system x" "--temperature 1" "--api-key-file x" "--drain 1" "--max-body 9999" \
    "--port 0" "--served-model-name a,b" "--nnodes 2" "--mem-fraction-static 1.5" "--kv-size much"; do
    # shellcheck disable=SC2086
    run "$model" --dry-run $wrong
    exits 2
    warns "${wrong%% *}"
done
kt run "$model" --dry-run --gpu-experts 1
exits 2
warns '--gpu-experts is for --engine sglang only'
run "$model" x --dry-run
exits 2
run --dry-run
exits 2
run "$model" --dry-run --format json
exits 0
says '"command": *"python3 -m sglang.launch_server '

# ---- placement ----
HOME=$dir/home
mask='{"masks": {"dtype": "U8", "shape": [1, 8], "data_offsets": [0, 8]}, "layers": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]}}'
{ u8 1 0 1 0 0 0 0 1 && i64 0; } | write_tensors "$dir/masks.safetensors" "$mask"
run "$model" --dry-run --init-expert-location "$dir/masks.safetensors"
exits 0
placed=$(sed -n 's/.*--init-expert-location \([^ ]*\).*/\1/p' "$out")
[ -f "$placed" ] || fail "SGLang's file must be there: $placed"
words "--kt-expert-placement-strategy frequency" "--kt-gpu-experts-ratio 0.[0-9]*"
i64 1 0 1 0 0 0 0 1 | cmp -s -n 64 - "$dir/placed" || fail "the counts must be those of the masks"
sed -i 's/\[1, 8\]/[2, 4]/' "$dir/masks.safetensors"
run "$model" --dry-run --init-expert-location "$dir/masks.safetensors"
exits 1
# refuses_masks TEXT LAYER FROM TO: masks of that layer with another header.
refuses_masks()
{
    { u8 1 0 1 0 0 0 0 1 && i64 "$2"; } | write_tensors "$dir/masks.safetensors" "$(echo "$mask" | sed "s/$3/$4/")"
    run "$model" --dry-run --init-expert-location "$dir/masks.safetensors"
    exits 1
    warns "$1"
}
refuses_masks 'neither counts of kt stats nor masks of kt place are in it' 0 '"masks"' '"others"'
refuses_masks '"masks" is no table of I64 or U8' 0 '"U8", "shape": .1, 8.' '"I8", "shape": [1, 8]'
refuses_masks 'masks.safetensors has layer 9, and the model has ' 9 x x
u8 1 0 1 0 0 0 0 1 | write_tensors "$dir/masks.safetensors" \
    '{"masks": {"dtype": "U8", "shape": [2, 4], "data_offsets": [0, 8]}}'
run "$model" --dry-run --init-expert-location "$dir/masks.safetensors"
exits 1
warns 'is of 4 experts a layer, and the model has 8'
run "$model" --dry-run --chat-template "$dir/none"
exits 1
warns 'chat-template .*none: No such file'
run "$model" --dry-run --init-expert-location recorded.pt
words "--init-expert-location recorded.pt" "--kt-expert-placement-strategy frequency" "--kt-num-gpu-experts [0-9]*"

# ---- what is missing ----
installed "" 0 "" 0
run "$model"
exits 1
warns "python3 has no SGLang; 'python3 -m pip install sglang-kt'"
run "$model" --dry-run
exits 1
words "--kt-method FP8"
installed "$dir/sglang" 0 "" 0
run "$model"
exits 1
warns 'SGLang 0.7.2 has no layer for kt_kernel'
installed "$dir/sglang" 1 "" 0
run "$model"
exits 1
warns 'has no kt_kernel'
installed "$dir/sglang" 1 /usr/lib/kt_kernel 0
run "$model" --dry-run
exits 0
warns "KT-Kernel's own package"
installed "$dir/sglang" 1 /usr/lib/kt_kernel 1
run "$model" --python "$dir/nowhere" --dry-run
exits 1
warns 'nowhere cannot be run'
echo "unknown --kt-numa-nodes" >"$dir/unknown"
run "$model" --dry-run
exits 0
warns 'SGLang 0.7.2 has no option --kt-numa-nodes, which is left out'
says_not 'numa-nodes'
words "--kt-threadpool-count 1"
run "$model" --dry-run --numa-nodes 0
exits 1
echo "failed No module named x" >"$dir/unknown"
run "$model" --dry-run
exits 1
warns 'cannot be imported: No module named x'
echo "wrong it is too much" >"$dir/unknown"
run "$model" --dry-run
exits 1
warns 'rejects: it is too much'
echo "unknown --made-up" >"$dir/unknown"
run "$model" -- --made-up
exits 1
warns 'has no option --made-up'
[ ! -e "$dir/started" ] || fail "it must not start"
: >"$dir/unknown"

# ---- the server ----
serves()
{
    { echo 'echo out; echo message >&2' && cat; } >"$dir/server"
}
serves <<'END'
echo "[2026-11-23 18:00:00 TP0] [KT] Created shared staging buffer: 2.0 MiB"
echo "The server is fired up and ready to roll!" >&2
printf 'no end'
exit 7
END
run "$model" --api-key secret -- --admin-api-key=secret
exits 7
says_not secret # whoever reads the log must not know it
grep -q 'api-key secret .*api-key=secret' "$dir/started" || fail "the server must know it"
says '^out$'
says 'no end$'
warns '^message$'
warns 'note: kt_kernel is active'
grep -q -e '--kt-method FP8' "$dir/started" || fail "the server must get the options"
# Of two outputs, the one that says it is ready may be read first: here both are there when kt goes on.
serves <<'END'
kill -STOP $PPID
echo "The server is fired up and ready to roll!"
echo "[KT] Created shared staging buffer: 2.0 MiB" >&2
kill -CONT $PPID
END
run "$model"
exits 0
warns 'note: kt_kernel is active'
warns_not 'NOT ACTIVE'
serves <<'END'
echo "Could not determine num_layers or num_experts from model config."
echo "The server is fired up and ready to roll!"
END
run "$model"
exits 0
warns 'kt_kernel IS NOT ACTIVE'
warns 'it said: Could not determine'
run "$model" --log-level error
exits 0
! grep -q 'NOT ACTIVE' "$err" || fail "a silent log says nothing"
serves <<'END'
kill -USR1 $$
END
run "$model"
exits 138
# A signal is handed on, once; what the server has started does not keep kt.
serves <<'END'
trap 'echo "term" >&2; exit 5' TERM
sleep 60 &
echo "$!" >"$PWD_OF/sleeper"
echo ready >"$PWD_OF/fifo"
wait
END
PWD_OF=$dir
export PWD_OF
mkfifo "$dir/fifo"
command_line="kt run, SIGTERM"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs "$kt_program" run --engine sglang "$model" >"$out" 2>"$err" &
child=$!
read -r _ <"$dir/fifo"
kill "$child"
wait "$child"
code=$?
exits 5
[ "$(grep -c '^term$' "$err")" -eq 1 ] || fail "the server gets one signal"
kill "$(cat "$dir/sleeper")"
# Ctrl-C on a terminal reaches both at once: the server must not get it twice.
serves <<'END'
n=0
trap 'n=$((n + 1)); echo interrupted' INT
trap 'kill "$!"; exit $((10 + n))' TERM # which kt hands on behind whatever came before
sleep 60 &
echo ready
while kill -0 "$!"; do wait "$!"; done
END
cat >"$dir/terminal.py" <<'END'
import os, pty, signal, sys
signal.alarm(60)
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background ignores it
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
try:
    while b"ready" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    while b"interrupted" not in shown:
        shown += os.read(terminal, 4096)
    os.kill(child, signal.SIGTERM)
    while True:
        shown += os.read(terminal, 4096)
except OSError:
    print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
END
command_line="kt run, Ctrl-C"
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs "$real_python" "$dir/terminal.py" "$kt_program" run --engine sglang "$model" \
    --python "$dir/bin/python3" >"$out" 2>"$err"
code=$?
exits 11
finish
