#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run with several models.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
XDG_DATA_HOME=$dir/data
export XDG_DATA_HOME
mkdir "$dir/other"
cp "$model" "$dir/other/same.gguf"
cp "$model" "$dir/same.gguf"

# What is wrong is said before anything is loaded.
kt run "$model" "$dir/same.gguf" "$dir/other/same.gguf" --dry-run
exits 2
warns "two models have the name 'same'"
kt run "$model" "$dir/same.gguf" --dry-run --experts "$model"
exits 2
warns '--experts is for one model, but there are 2'
kt run "$model" "$dir/same.gguf" --dry-run --served-model-name a
exits 2
kt run --model "$model" "$dir/same.gguf" --dry-run
exits 2
warns 'one argument too many'
kt run "$model" "$dir/nowhere" --dry-run
exits 1
warns 'nowhere: cannot be opened: No such file'
kt run "$model" "$dir/same.gguf" --dry-run --max-memory much
exits 2
kt run "$model" --dry-run --max-memory 1M
exits 1
warns 'tiny-moe-q4_k_m: it requires .* GB of memory, and --max-memory allows 0.001 GB'
kt run "$model" "$dir/same.gguf" --context 100000
exits 1
warns 'the model supports 2048'

# What is kept with a name is of that model alone; options of the command line are of all.
kt model add "$dir/same.gguf" --name small --context 128 --kv f32
exits 0
kt model add "$dir/other/same.gguf" --name large --context 512 --backend llamafile
exits 0
kt run small large "$model" --kv q8_0 --dry-run --format csv
exits 0
says '^small,qwen3moe,128,'
says '^large,qwen3moe,512,'
says '^tiny-moe-q4_k_m,qwen3moe,2048,'
kt run small "$dir/same.gguf" --dry-run --format csv --context 256
exits 0
says '^small,qwen3moe,256,'
says '^same,qwen3moe,256,'

run_python serve_several.py "$model" "$dir" "$kt_program"
finish
