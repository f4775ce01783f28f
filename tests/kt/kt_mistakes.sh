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
# ---- traces of kt bench ----
mistake 1 'it is no trace' bench --trace "$model" --backend reference --shape 256,256,4,2
mistake 2 'holds no batch of 7 tokens' bench --trace "$trace" --backend reference --tokens 7
mistake 2 'was recorded with hidden size' bench --trace "$trace" --backend reference --shape 512,256,64,8
# ---- files of settings and models ----
mistake 1 'a symbolic link to nothing' config set core.threads 2 --config "$(ln -s "$dir/none" "$dir/link" && echo "$dir/link")"
mistake 1 'it is no file' config set core.threads 2 --config "$dir"
head -c 1100000 /dev/zero | tr '\0' '#' >"$dir/large"
mistake 1 'is larger than 1 MiB' config set core.threads 2 --config "$dir/large"
mkdir -p "$XDG_DATA_HOME/kt-kernel"
cp "$dir/large" "$XDG_DATA_HOME/kt-kernel/models.ini"
mistake 1 'is no file of at most 1 MiB' model list
finish
