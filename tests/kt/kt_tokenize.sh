#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt tokenize, kt detokenize and kt bench --tokenize, on the vocabulary of a small model, and what kt says where
# kt-engine is not there.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
model=$data/tiny-moe-q4_k_m.gguf # gpt2, 2048 tokens, 2046 <|endoftext|> and 2047 <|im_end|>

# A kt without kt-engine names the package, and what it looked through.
if [ "$kt_program" = "$KT_TEST_BUILD/.libs/kt" ] && [ -z "${EMULATOR:-}" ]; then
    mkdir "$dir/alone"
    cp "$kt_program" "$dir/alone/kt"
    installed=$(strings "$kt_program" 2>/dev/null | grep -x '/.*libexec.*/kt-kernel' | head -n 1)
    if [ -z "$installed" ] || [ -e "$installed/kt-engine" ]; then
        echo "not run: kt without kt-engine: it may be installed in ${installed:-a folder that strings does not show}"
    else
        built=$kt_program
        kt_program=$dir/alone/kt
        for words in 'tokenize x y' 'detokenize x 1' 'help tokenize' 'bench --tokenize x y'; do
            # shellcheck disable=SC2086 # a verb and its arguments
            kt $words
            exits 1
            verb=${words#help }
            warns "^kt.*: error: 'kt ${verb%% *}' needs the program kt-engine, which is in neither $dir/alone nor "
            warns 'install the package kt-kernel-engine$'
            [ ! -s "$out" ] || fail "nothing must be printed"
        done
        : >"$dir/alone/kt-engine" # one that cannot be run is no missing one
        kt tokenize x y
        exits 1
        warns "$dir/alone/kt-engine cannot be run: Permission denied"
        kt_program=$built
    fi
fi
find_verbs
[ -n "$engine_verbs" ] || { [ "$n_failed" -gt 0 ] && finish; skip "$why"; }

# prints TEXT: the output is that and nothing else.
prints()
{
    exits 0
    is_silent
    printf '%s\n' "$1" | cmp -s - "$out" || fail "the output must be: $1"
}
# fed TEXT ARGUMENT...: kt with this standard input.
fed()
{
    text=$1
    shift
    command_line="kt $*"
    # shellcheck disable=SC2059 # the text has escapes
    printf "$text" | kt_run "$@" >"$out" 2>"$err"
    code=$?
}

# ---- a folder is the model in it, as for the verbs that open models ----
mkdir "$dir/folder"
ln -s "$model" "$dir/folder/m.gguf"
echo '{"model_type":"x"}' >"$dir/folder/config.json"
echo '{' >"$dir/folder/tokenizer.json" # the GGUF file has its own
for path in "$dir/folder" "$dir/folder/" "$dir/folder/config.json"; do
    kt tokenize "$path" 'To be, or not<|im_end|>'
    prints '398 304 44 522 321 2047'
    kt detokenize "$path" 398 304
    exits 0
    [ "$(cat "$out")" = 'To be' ] || fail "the ids are those of the text"
done
(cd "$dir/folder" && kt_run tokenize config.json 'To be') >"$out" 2>"$err"
prints '398 304'
kt template "$dir/folder" --chat-template chatml
exits 0
rm "$dir/folder/tokenizer.json"
kt tokenize "$dir/folder" 'To be'
prints '398 304'
ln -s "$model" "$dir/folder/n.gguf"
kt tokenize "$dir/folder" x
exits 1
warns 'm.gguf and .*n.gguf are two models\|n.gguf and .*m.gguf are two models'
mv "$dir/folder/n.gguf" "$dir/folder/mmproj-n.gguf"
kt tokenize "$dir/folder" 'To be'
prints '398 304'
: >"$dir/folder/model.safetensors"
kt tokenize "$dir/folder" x # the safetensors file is the model, and nothing beside it is a vocabulary
exits 1
warns 'neither tokenizer.json nor a tiktoken file'
kt tokenize "$dir/folder/model.safetensors" x
exits 1
warns 'neither tokenizer.json nor a tiktoken file'

# ---- ids ----
kt tokenize "$model" 'To be, or not<|im_end|>'
prints '398 304 44 522 321 2047'
kt tokenize --no-specials "$model" 'or<|im_end|>'
prints '270 60 124 318 95 467 124 62'
kt tokenize "$model" ''
prints ''
kt tokenize "$model" --bos 'To be' # this model's text does not begin with BOS
prints '398 304'
cp "$model" "$dir/bos.gguf" # one byte behind the key and its type, which is 7, a boolean
at=$(grep -abo tokenizer.ggml.add_bos_token "$model" | cut -d: -f1)
printf '\1' | dd of="$dir/bos.gguf" bs=1 seek=$((at + 32)) conv=notrunc 2>/dev/null
kt tokenize "$dir/bos.gguf" --bos 'To be'
prints '2046 398 304'
kt tokenize "$dir/bos.gguf" --bos '<|endoftext|>To be' # never twice
prints '2046 398 304'
kt tokenize "$dir/bos.gguf" 'To be'
prints '398 304'

# ---- files and standard input: all bytes, the last newline too ----
printf 'To be\n' >"$dir/text"
for words in "--file $dir/text" "-f $dir/text"; do
    # shellcheck disable=SC2086
    kt tokenize "$model" $words
    prints '398 304 10'
done
fed 'To be\n' tokenize "$model"
prints '398 304 10'
fed 'To\0be' tokenize "$model" -f -
prints '398 0 1220'
fed '' tokenize "$model"
prints ''

# ---- pieces ----
kt tokenize "$model" --pieces ' be
é<|im_end|>'
exits 0
says '^tokens: 5$'
says '^ *304  normal    be$'
says '^ *10  normal   \\n$'
says '^ *195  normal   \\xC3$'
says '^2047  control  <|im_end|>$'
kt tokenize "$model" --format csv 'é'
exits 0
printf 'id,type,piece,bytes\r\n195,normal,\\xC3,c3\r\n169,normal,\\xA9,a9\r\n' | tr -d '\r' >"$dir/wanted"
tr -d '\r' <"$out" | cmp -s - "$dir/wanted" || fail "the rows must be those of $(cat "$dir/wanted")"
kt tokenize "$model" --format json 'To be'
exits 0
says '"schema": "kt.tokenize"'
says '"n_tokens": 2'
says '"piece": " be"'

# ---- lines of JSON ----
fed '"To be"\n\n"or<|im_end|>"\n""\n"a\\u0000b"' tokenize "$model" --jsonl
prints '[398, 304]
[270, 2047]
[]
[97, 0, 98]'
fed '"or<|im_end|>"' tokenize "$model" --jsonl --no-specials --file -
prints '[270, 60, 124, 318, 95, 467, 124, 62]'
printf '"To be"\n5\n' >"$dir/lines"
kt tokenize "$model" --jsonl --file "$dir/lines"
exits 1
warns "^kt tokenize: error: $dir/lines:2: not a JSON string$"
says '^\[398, 304\]$'
fed '"To be\n' tokenize "$model" --jsonl
exits 1
warns '^kt tokenize: error: -:1: '

# ---- and back ----
kt detokenize "$model" 398 304 2047
exits 0
printf 'To be<|im_end|>' | cmp -s - "$out" || fail "the text must be To be<|im_end|>, without a newline"
kt detokenize "$model" 398 304 2047 --no-specials
printf 'To be' | cmp -s - "$out" || fail "there must be no control token"
fed '[398, 304\n10]' detokenize "$model"
printf 'To be\n' | cmp -s - "$out" || fail "commas and brackets stand between ids"
printf '398 304\n' >"$dir/ids"
kt detokenize "$model" -f "$dir/ids"
printf 'To be' | cmp -s - "$out" || fail "ids of a file"
fed '[398, 304]\n[]\n[195]' detokenize "$model" --jsonl
exits 0
[ "$(sed -n 1,2p "$out" | tr '\n' ' ')" = '"To be" "" ' ] || fail "a JSON string a line"
[ "$(wc -l <"$out")" -eq 3 ] || fail "three lines"
kt detokenize "$model" 195
printf '\357\277\275' | cmp -s - "$out" || fail "half a character is U+FFFD"
for file in HACKING README.md etc/man/kt-tokenize.1; do
    kt tokenize "$model" --file "$KT_TEST_SOURCE/$file"
    exits 0
    cp "$out" "$dir/ids"
    kt detokenize "$model" --file "$dir/ids"
    cmp -s "$out" "$KT_TEST_SOURCE/$file" || fail "$file must come back as it was"
done

# ---- bench ----
kt bench --tokenize "$model" "$KT_TEST_SOURCE/HACKING" "$dir/text" --runs 2 --format csv
exits 0
is_silent
[ "$(wc -l <"$out")" -eq 3 ] || fail "a row for each file"
[ "$(field "$dir/text" n_tokens),$(field "$dir/text" bytes)" = 3,6 ] || fail "6 bytes are 3 tokens"
for column in encode_first_mbps encode_mbps decode_mbps; do
    compares "$(field "$KT_TEST_SOURCE/HACKING" $column)" '>=' 1e-3
done
kt bench --tokenize="$model" "$dir/text" --format json
exits 0
says '"schema": "kt.bench.tokenize"'
says '"n_vocabulary": 2048'
kt help bench
says '^ *--tokenize MODEL'

# ---- what is wrong ----
refused()
{
    exits 2
    warns "$1"
    [ ! -s "$out" ] || fail "bad usage must print no data"
}
kt tokenize
refused '^kt tokenize: error: MODEL is missing'
kt detokenize
refused '^kt detokenize: error: MODEL is missing'
kt tokenize "$model" a b
refused "'b' is one argument too many"
kt tokenize "$model" a --file "$dir/text"
refused "TEXT 'a' together with --file"
kt tokenize "$model" a --jsonl
refused "TEXT 'a' together with --jsonl"
kt tokenize "$model" --jsonl --pieces
refused '^kt tokenize: error: --jsonl writes arrays of ids'
kt tokenize "$model" --peices a
refused 'unknown option --peices, did you mean --pieces?'
kt detokenize "$model" 1 --jsonl
refused 'ID 1 together with --jsonl'
kt detokenize "$model" 1 --format json
refused 'the output is text'
for id in x 1x 99999999999999999999; do
    kt detokenize "$model" "$id"
    refused "'$id' is not a token id"
done
kt bench --tokenize "$model"
refused 'FILE is missing'
kt bench --tokenize
refused '--tokenize needs a value'
kt bench --tokenize "$model" "$dir/text" --runs 0
refused 'runs'
kt tokenizer x
refused "unknown verb 'tokenizer', did you mean 'tokenize'?"

fails()
{
    exits 1
    warns "^kt.*: error: .*$1"
    [ ! -s "$out" ] || fail "nothing must be printed"
}
kt tokenize "$dir/nothing.gguf" a
fails "$dir/nothing.gguf: No such file"
kt tokenize "$model" --file "$dir/nothing"
fails "$dir/nothing: No such file"
kt tokenize "$model" --file "$dir"
fails "$dir: Is a directory"
kt tokenize "$dir/text" a
fails "$dir/text"
kt tokenize "$trace" a # a checkpoint without a vocabulary
fails "$(basename "$trace")"
head -c 2000 "$model" >"$dir/cut.gguf"
kt tokenize "$dir/cut.gguf" a
fails "$dir/cut.gguf"
kt detokenize "$model" --jsonl --file "$dir/nothing"
fails "$dir/nothing: No such file"
for id in 2048 -1; do
    kt detokenize "$model" -- $id
    fails "id $id is not a token of .*ids are 0 to 2047"
done
fed '[398, "x"]' detokenize "$model" --jsonl
fails '-:1: '
: >"$dir/empty"
kt bench --tokenize "$model" "$dir/empty"
fails "$dir/empty: it is empty"
kt bench --tokenize "$model" "$dir/text" "$dir/nothing"
fails "$dir/nothing: No such file"
finish
