#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt generate and kt perplexity on a trained model, beside what ik_llama.cpp made of the same file.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
find_verbs
[ -n "$engine_verbs" ] || skip "$why"
with_plugin attention || skip "the plugin attention was not built"
with_plugin llamafile || skip "the backend llamafile was not built"
model=$data/tiny-moe-q4_k_m.gguf

# Greedily, from the same file.
cat >"$dir/wanted" <<'END'
 sir, I will not be so.

PETRUCHIO:
I'll tell you, sir, I will not be a gentleman.
END
printf 'KATHARINA:\nI pray you,' >"$dir/prompt"
for how in "--threads 1" "--threads 2" "--backend reference"; do
    # shellcheck disable=SC2086 # two words
    kt generate "$model" -f "$dir/prompt" --tokens 28 $how
    exits 0
    head -n 4 "$out" | cmp -s - "$dir/wanted" || fail "the text must be $(cat "$dir/wanted")"
    grep -q '^kt generate: 7 tokens read, ' "$err" || fail "the speed must be shown"
done
cp "$out" "$dir/whole"
kt generate "$model" --prompt "$(cat "$dir/prompt")" -n 28
cmp -s "$out" "$dir/whole" || fail "--prompt must do what --file does"
kt generate "$model" -f - -n 28 <"$dir/prompt"
cmp -s "$out" "$dir/whole" || fail "standard input must do what --file does"
kt generate "$model" -f "$dir/prompt" -n 0
exits 0
[ ! -s "$out" ] || fail "no token was asked for"

# A form: all of it, or exit status 1.
printf '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}' >"$dir/form"
kt generate "$model" -f "$dir/prompt" -n 200 --json-schema "$dir/form"
exits 0
tr -d ' \n' <"$out" | grep -q '^{"a":-\{0,1\}[0-9]*}$' || fail "the text must have the form"
kt generate "$model" -f "$dir/prompt" -n 3 --json-schema "$dir/form"
exits 1
warns 'the text ends before its form is whole, after 3 tokens'
kt generate "$model" -f "$dir/prompt" -n 3 --json
exits 1
tr -d ' \n' <"$out" | grep -q '^\({\|$\)' || fail "an object must begin"
printf '{"not":{}}' >"$dir/form"
kt generate "$model" -f "$dir/prompt" --json-schema "$dir/form"
exits 1
warns 'form: the JSON schema at #: nothing can fit it'
printf '{"multipleOf":0.1}' >"$dir/form"
kt generate "$model" -f "$dir/prompt" --json-schema "$dir/form"
exits 1
warns 'form: the JSON schema at #: multipleOf is supported for whole numbers up to 1000'

# Sampling: a seed gives its text again, whatever the threads; another one another text.
kt generate "$model" -f "$dir/prompt" -n 40 --temperature 1 --seed 5
exits 0
cp "$out" "$dir/seed5"
grep -q '^kt generate: temperature 1, seed 5$' "$err" || fail "what draws must be shown"
kt generate "$model" -f "$dir/prompt" -n 40 --temperature 1 --seed 5 --threads 1
cmp -s "$out" "$dir/seed5" || fail "a seed must give its text again"
kt generate "$model" -f "$dir/prompt" -n 40 --temperature 1 --seed 6
! cmp -s "$out" "$dir/seed5" || fail "another seed must give another text"
kt generate "$model" -f "$dir/prompt" -n 40 --top-p 0.9
exits 0
grep -q '^kt generate: temperature 1, top_p 0.9, seed [0-9]*$' "$err" || fail "a filter alone must draw"
seed=$(sed -n 's/.* seed //p' "$err")
cp "$out" "$dir/some"
kt generate "$model" -f "$dir/prompt" -n 40 --top-p 0.9 --seed "$seed"
cmp -s "$out" "$dir/some" || fail "the seed that was shown must give the text again"
kt generate "$model" -f "$dir/prompt" -n 28 --temperature 1 --top-k 1
cmp -s "$out" "$dir/whole" || fail "the likeliest token alone is the likeliest token"
kt generate "$model" -f "$dir/prompt" -n 28 --temperature 0 --top-p 0.5 --min-p 0.1
cmp -s "$out" "$dir/whole" || fail "--temperature 0 must take the likeliest token"
kt generate "$model" -f "$dir/prompt" -n 100
cp "$out" "$dir/whole100"
for option in "--repetition-penalty 1.5" "--frequency-penalty 1" "--presence-penalty 2" "--dry-multiplier 4"; do
    # shellcheck disable=SC2086 # words
    kt generate "$model" -f "$dir/prompt" -n 100 $option
    ! cmp -s "$out" "$dir/whole100" || fail "$option must change a text"
done

# Stop strings, over tokens, the first of several.
kt generate "$model" -f "$dir/prompt" -n 28 --stop gentleman --stop "t be so."
exits 0
[ "$(cat "$out")" = " sir, I will no" ] || fail "the text must end before the stop string"
kt generate "$model" -f "$dir/prompt" -n 28 --stop "be so, never"
cmp -s "$out" "$dir/whole" || fail "what only begins a stop string must be written"

# What sampling cannot do.
kt generate "$model" -f "$dir/prompt" --top-p 1.5
exits 2
grep -q 'top_p is 1.5' "$err" || fail "the option must be named"
kt generate "$model" -f "$dir/prompt" --temperature -1
exits 2
set --
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do set -- "$@" --stop "$i"; done
kt generate "$model" -f "$dir/prompt" "$@"
exits 2
grep -q 'given 16 times at most' "$err" || fail "the bound must be named"

# A message is wrapped: whatever the template is, the model answers something.
kt generate "$model" --chat --chat-template chatml --system Speak. -p Hello -n 5
exits 0

# What does not fit, and what is wrong.
kt generate "$model" -f "$dir/prompt" --context 3
exits 1
grep -q '7 tokens, but the context has 3' "$err" || fail "both numbers must be named"
kt generate "$model" -f "$dir/prompt" --context 9 -n 100
exits 0
kt generate "$model" -f "$dir/prompt" --context 100000
exits 1
grep -q 'model supports 2048' "$err" || fail "the model's context must be named"
kt generate "$model"
exits 2
kt generate "$model" -p x -f "$dir/prompt"
exits 2
kt generate "$model" -p x --system y
exits 2
kt generate "$dir/nowhere" -p x
exits 1
kt generate "$KT_TEST_SOURCE/tests/data/block-types.gguf" -p x
exits 1
kt generate "$data/tiny-moe-q8_0-l0-l3.gguf" -p x
exits 1
grep -q token_embd "$err" || fail "the missing tensor must be named"

# Perplexity, of a text of the model's own kind and windows of 64 tokens.
for i in 1 2 3 4 5 6; do cat "$dir/prompt" "$dir/whole"; echo; done >"$dir/text"
kt perplexity "$model" "$dir/text" --context 64 --format csv
exits 0
awk -F, 'NR == 2 { exit !($1 > 1 && $1 < 30 && $3 >= 2 && $5 == 31 * $3) }' "$out" || fail "a text that it wrote itself"
cp "$out" "$dir/first"
kt perplexity "$model" "$dir/text" --context 64 --format csv --threads 1
[ "$(cut -d, -f1-5 "$out")" = "$(cut -d, -f1-5 "$dir/first")" ] || fail "the same for any number of threads"
# Experts from elsewhere: the same file, a store, and a file without them.
kt generate "$model" --experts "$model" -f "$dir/prompt" --tokens 28
exits 0
cmp -s "$out" "$dir/whole" || fail "the same experts must give the same text"
if with_plugin amx_int8; then
    kt convert "$model" --output "$dir/store" --backend AMXINT8
    exits 0
    kt perplexity "$model" "$dir/text" --context 64 --save-logits "$dir/own"
    exits 0
    kt perplexity "$model" "$dir/text" --context 64 --experts "$dir/store" --kl-divergence "$dir/own" --format csv
    exits 0
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "kl_divergence") k = i }
        NR == 2 { exit !($k > 1e-6 && $k < 0.05) }' "$out" || fail "the store's rounding must show, and little of it"
fi
kt generate "$model" --experts "$KT_TEST_SOURCE/tests/data/block-types.gguf" -p x
exits 1

# Recorded logits: the same model diverges by nothing, another form of its cache by little.
kt perplexity "$model" "$dir/text" --context 64 --save-logits "$dir/logits" --threads 1
exits 0
[ ! -e "$dir/logits.part" ] || fail "the file must have its own name only"
kt perplexity "$model" "$dir/text" --context 64 --kl-divergence "$dir/logits" --format json --threads 2
exits 0
says '"kl_divergence": 0[,.]'
says '"same_top": 1[,.]*'
kt perplexity "$model" "$dir/text" --context 64 --kl-divergence "$dir/logits" --cache q8_0 --format csv
exits 0
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "kl_divergence") k = i }
    NR == 2 { exit !($k > 0 && $k < 1e-3) }' "$out" || fail "a cache in q8_0 must change a little"
kt perplexity "$model" "$dir/text" --context 32 --kl-divergence "$dir/logits"
exits 1
grep -q 'windows of 64 tokens' "$err" || fail "both shapes must be named"
head -c 5000 "$dir/logits" >"$dir/cut"
kt perplexity "$model" "$dir/text" --context 64 --kl-divergence "$dir/cut"
exits 1
grep -q 'truncated' "$err" || fail "it must say that the file is cut off"
kt perplexity "$model" "$dir/text" --context 64 --kl-divergence "$model"
exits 1
kt perplexity "$model" "$dir/text" --context 64 --save-logits "$dir/nowhere/logits"
exits 1
kt perplexity "$model" "$dir/text" --cache q4_0
exits 2
kt perplexity "$model" "$dir/prompt"
exits 1
grep -q 'has 7 tokens, a window 512' "$err" || fail "both numbers must be named"
kt perplexity "$model"
exits 2

# All of it, by ik_llama.cpp's figures over the same windows.
large=${KT_TEST_DATA_SHARED:-}/tiny-moe
if [ -f "$large/heldout.txt" ]; then
    for pair in bf16:62.59 q8_0:62.59 q4_k_m:63.18 iq4_xs:62.59; do
        with_plugin bf16 || [ "$pair" != bf16:62.59 ] || continue
        kt perplexity "$large/tiny-moe-${pair%:*}.gguf" "$large/heldout.txt" --context 256 --format csv
        exits 0
        awk -F, -v wanted="${pair#*:}" 'NR == 2 { d = $1 / wanted - 1; exit !(d < 0.002 && d > -0.002 && $3 == 75) }' "$out" ||
            fail "the perplexity of $pair must be within 0.2 %"
    done
else
    echo "SKIP: perplexity over a whole play: KT_TEST_DATA names no folder with large test data"
fi
finish

# A whole model, measured: every test is there, shares add up to the whole.
kt bench "$model" -p 70 -n 5 -d 0,130 --sequences 1,3 --runs 1 --format json
exits 0
python3 - "$out" <<'END_PYTHON' || fail "the measurements must be whole"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
names = [row["test"] for row in rows]
assert names == ["pp70", "tg5", "tg5 x 3", "pp70 @ d130", "tg5 @ d130", "tg5 x 3 @ d130"], names
for row in rows:
    shares = [row[name + "_share"] for name in ("experts", "linears", "attention", "head", "rest")]
    assert abs(sum(shares) - 1) < 1e-3 and min(shares) >= 0, row
    assert row["tokens_per_s"] > 0 and row["limit_fraction"] > 0, row
END_PYTHON
kt bench "$model" -n 0
exits 2
kt bench "$model" -n 5 --cache q4_0
exits 2
kt bench "$model" -p 3000
exits 1
grep -q 'made for 2048' "$err" || fail "the model's context must be named"
