#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What kt says of command lines that cannot be meant and of files that are not what they should be: one line a row.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
with_plugin attention || skip "the plugin attention was not built"
model=$data/tiny-moe-q4_k_m.gguf
printf '[core]\nthreads = 1\n' >"$dir/kt.ini"

# mistake CODE TEXT ARGUMENT...: kt must end with that code and say this.
mistake()
{
    status=$1 text=$2
    shift 2
    kt "$@"
    exits "$status"
    warns "$text"
}

# ---- measuring ----
mistake 2 'names between commas are needed' bench --attention ,
mistake 2 'are possible' bench --attention 2/1x32:16 --sequences 0
mistake 2 'names between commas are needed' tune --attention ,
mistake 2 '--context is for --attention' tune --context 5
mistake 2 '--cache is for --attention' tune --cache bf16
mistake 2 '--attention 2/1x32:16 goes with' tune --attention 2/1x32:16 --shape 256,256,4,2
mistake 2 'different things to do' tune --show --reset
mistake 2 'no other option of kt tune' tune --show --tokens 1
mistake 2 'say of which model' tune --layers 0
mistake 2 'has its own' tune "$model" --shape 256,256,4,2
mistake 2 'say of which backend' tune --levels
mistake 2 '--linear 256x256 goes with no --shape' tune --linear 256x256 --shape 256,256,4,2
mistake 2 'at most ' tune --tokens 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33
mistake 2 'goes with --context, --sequences' bench --attention gpt-oss "$model"
mistake 2 '--levels: --attention goes with --context' bench --attention gpt-oss --levels
mistake 2 '--context is for --attention' bench --context 5
mistake 2 '--sequences is for --n-gen and --attention' bench --sequences 5
mistake 2 '--cache is for --n-prompt' bench --cache bf16
mistake 2 'MODEL is missing' bench -vn 5
mistake 2 "'y' is one argument too many" bench x -p5 y
mistake 2 '--limits: a whole model goes with --n-prompt' bench "$model" -n 5 --limits
mistake 2 '--experts is for --n-prompt' bench "$model" --experts x
mistake 2 'FILE is missing' bench --tokenize x
mistake 2 '--model: the model is that of --tokenize' bench --tokenize x --model y z
mistake 2 '--shape: --tokenize goes with --runs only' bench --tokenize x y --shape 1,2,3,4
mistake 2 '--cache x is not known; bf16, q8_0 and f32 are' bench --attention 2/1x32:16 --cache x
mistake 2 'no plugin none is configured' bench --attention 2/1x32:16 --backend none
mistake 2 'no plugin none is configured' tune --attention 2/1x32:16 --backend none
mistake 2 'one backend at a time' tune --attention 2/1x32:16 --backend attention,reference
mistake 2 'names such as llamafile,reference, or all' bench --shape 256,256,4,2 --backend ,
mistake 1 'a read buffer of 16.0 TiB does not fit' bench --limits --cycle 16777216
mistake 1 'need [0-9.]* TiB of memory: take a smaller shape' bench --shape 1000000,1000000,1000,8 --backend reference
if with_plugin bf16; then
    for verb in bench tune; do
        mistake 2 'bf16 does not take q5_k weights of this shape' $verb --shape 256,256,4,2 --source-type q5_k --backend bf16
    done
fi
# ---- traces of kt bench ----
mistake 1 'it is not a trace' bench --trace "$model" --backend reference --shape 256,256,4,2
mistake 2 'holds no batch of 7 tokens' bench --trace "$trace" --backend reference --tokens 7
mistake 2 'was recorded with hidden size' bench --trace "$trace" --backend reference --shape 512,256,64,8
# ---- files of settings and models ----
mistake 1 'broken symbolic link' config set core.threads 2 --config "$(ln -s "$dir/none" "$dir/link" && echo "$dir/link")"
mistake 1 'it is not a file' config set core.threads 2 --config "$dir"
mkdir "$dir/tuned.ini"
mistake 1 'tuned.ini cannot be removed: Is a directory' tune --reset --config "$dir/kt.ini"
rmdir "$dir/tuned.ini"
head -c 1100000 /dev/zero | tr '\0' '#' >"$dir/large"
mistake 1 'is larger than 1 MiB' config set core.threads 2 --config "$dir/large"
mistake 1 'large/x cannot be changed: Not a directory' config set core.threads 2 --config "$dir/large/x"
(
    XDG_CONFIG_HOME=$dir/large/x
    export XDG_CONFIG_HOME
    mistake 1 'large/x cannot be changed: Not a directory' config set core.threads 2
    exit $n_failed
) || n_failed=$((n_failed + 1))
(
    unset XDG_CONFIG_HOME XDG_DATA_HOME HOME
    mistake 1 'neither XDG_DATA_HOME nor HOME is set' model list
    exit $n_failed
) || n_failed=$((n_failed + 1))
mkdir -p "$XDG_DATA_HOME/kt-kernel"
echo '[pathless]' >"$XDG_DATA_HOME/kt-kernel/models.ini"
mistake 1 'models.ini:1: the model pathless has no path' model path pathless
mistake 1 'models.ini:1: the model pathless has no path' inspect pathless
name=$(printf 'two\nlines')
ln -s "$(cd "$data" && pwd)/tiny-moe-q4_k_m.gguf" "$dir/$name"
mistake 2 'a file cannot hold this value, for a line ends it' model add "$dir/$name" --name lines
cp "$dir/large" "$XDG_DATA_HOME/kt-kernel/models.ini"
mistake 1 'is not a file of at most 1 MiB' model list
rm "$XDG_DATA_HOME/kt-kernel/models.ini"

# ---- stores ----
if with_plugin amx_int8 && with_plugin bf16; then
    store=$dir/store
    kt convert "$data/tiny-moe-bf16-l0-l3.gguf" --output "$store" --backend amx_int8 --layers 0
    exits 0
    mistake 1 'layer 0 is stored as amx_int8-1, asked for is bf16-1: choose another folder' \
        convert "$data/tiny-moe-bf16-l0-l3.gguf" --output "$store" --backend bf16 --layers 0 --resume
    mistake 1 'was packed from another checkpoint' \
        convert "$data/fp8-block-l0" --output "$store" --backend amx_int8 --layers 0 --resume
    mistake 1 'so that copies of it would come from a cache' bench "$store"
    kt convert "$model" --output "$dir/linears" --backend amx_int8 --linears all --no-experts --layers 0
    exits 0
    mistake 1 'linears: is packed already; convert the original checkpoint' \
        convert "$dir/linears" --output "$dir/again" --backend amx_int8 --linears all --no-experts
fi

# ---- text ----
find_verbs
[ -n "$engine_verbs" ] || finish
mistake 2 '--chat-template goes with --chat' generate "$model" --prompt a --chat-template chatml
mistake 2 '--json and --json-schema exclude each other' generate "$model" --prompt a --json --json-schema x
mistake 2 '--format does not go with it' generate "$model" --prompt a --format json
mistake 1 'the model has no chat template' generate "$model" --prompt a --chat
mistake 1 'the model has no chat template' template "$model"
mistake 2 'did you mean AMXINT4' bench "$model" -n 5 -b AMXINT9
case $engine_verbs in *chat*) mistake 1 'template gives it one' chat "$model" --prompt x ;; esac
mistake 2 '--n-prompt: 0 must be 1 to 1048576' bench "$model" --n-prompt 0
echo '{"a": 1}' >"$dir/lines"
mistake 1 'lines:1: not an array of IDs' detokenize "$model" --jsonl --file "$dir/lines"
head -c 300 "$KT_TEST_SOURCE/COPYING" >"$dir/text"
with_plugin llamafile || finish
kt perplexity "$model" "$dir/text" --context 16 --save-logits "$dir/logits"
exits 0
sed 's/License/license/' "$dir/text" >"$dir/other"
mistake 1 'recorded over another text' perplexity "$model" "$dir/other" --context 16 --kl-divergence "$dir/logits"
finish
