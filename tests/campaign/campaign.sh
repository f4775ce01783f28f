#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Attacks what was built, for CAMPAIGN_MINUTES (default 3), and goes on where it was in CAMPAIGN_FOLDER:
#     make check-campaign CAMPAIGN_MINUTES=60 [CAMPAIGN_PARTS='gguf faults']
# Prints a table, appends it to campaign.csv in that folder, and fails if anything in its last four columns is not 0.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
minutes=${CAMPAIGN_MINUTES:-3}
keep=${CAMPAIGN_FOLDER:-$KT_TEST_BUILD/campaign}
tiny=$data
programs=$KT_TEST_BUILD/tests/campaign
program=$KT_TEST_BUILD/.libs/kt
engine=$KT_TEST_BUILD/.libs/kt-engine
[ -x "$program" ] || program=$kt_program
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
mkdir -p "$keep/seeds"
: >"$out"
: >"$err"
work=$dir/attacked
mkdir "$work"
campaign=$KT_TEST_SOURCE/tests/campaign
build_shim

# real PROGRAM: libtool's script would be attacked, too.
real() { if [ -x "$programs/.libs/$1" ]; then echo "$programs/.libs/$1"; else echo "$programs/$1"; fi; }
attack=$(real attack)
with_plugin llamafile || true
with_plugin amx_int8 || true
with_plugin amx_int4 || true
with_plugin bf16 || true
with_plugin attention || true
model=$tiny/tiny-moe-q4_k_m.gguf
bf16=$tiny/tiny-moe-bf16-l0-l3.gguf

# Seconds of each part; some have an end of their own.
parts="gguf safetensors folder store ini trace stats tokenizer tokens grammar plugin prefix http shrink batches views forks kill power places faults client memory fuzz"
wanted=${CAMPAIGN_PARTS:-$parts}
share=$(awk "BEGIN { print $minutes * 60 / $(echo "$wanted" | wc -w) }")

# Lines of what was found, kept and shown at the end.
: >"$dir/found"
found() { tee -a "$keep/findings" "$dir/found"; }

# seed PART - the one to continue with.
seed() { cat "$keep/seeds/$1" 2>/dev/null || echo 1; }

# count PART COMMAND... - runs an attack and adds up its last line.
count()
{
    part=$1
    shift
    "$@" >"$dir/said" 2>&1
    status=$?
    tail -n 1 "$dir/said" | awk 'NF == 6 && !/[^0-9 ]/' >"$dir/numbers"
    [ -s "$dir/numbers" ] && [ $status -lt 2 ] || { cat "$dir/said"; fail "the part $part did not run: $*"; return; }
    sed '$d' "$dir/said" | head -n 20 | found
    awk '{ print $6 }' "$dir/numbers" >"$keep/seeds/$part"
    awk -v part="$part" '{ print part, $1, $2, $3, $4, $5 }' "$dir/numbers" >>"$dir/rows"
}

# mutate PART FILE COMMAND... - FILE in $work is changed each time.
mutate()
{
    part=$1 file=$2
    shift 2
    count "$part" "$attack" mutate "$share" "$(seed "$part")" "$file" -- "$@"
}

part_gguf() { cp "$model" "$work/m.gguf"; mutate gguf "$work/m.gguf" "$program" forward -m "$work/m.gguf" -i "$trace" --layer 0; }
part_safetensors() { cp -r "$tiny/fp8-block-l0" "$work/fp8"; chmod -R u+w "$work/fp8"
    mutate safetensors "$(ls "$work"/fp8/*.safetensors | head -n 1)" "$program" inspect --tensors "$work/fp8"; }
part_folder() { cp -r "$tiny/fp8-block-l0" "$work/hf"; chmod -R u+w "$work/hf"
    mutate folder "$work/hf/config.json" "$program" inspect "$work/hf"; }
part_store()
{
    "$program" convert --input "$bf16" --output "$work/store" --method AMXINT8 >/dev/null 2>"$err" || return 0
    mutate store "$work/store/layer-00000.safetensors" "$program" forward -m "$work/store" -i "$trace" --layer 0
}
part_ini() { cp "$KT_TEST_SOURCE/etc/kt.ini" "$work/kt.ini"; mutate ini "$work/kt.ini" "$program" config show --config "$work/kt.ini"; }
part_trace() { cp "$trace" "$work/trace.safetensors"; mutate trace "$work/trace.safetensors" "$program" forward -m "$model" -i "$work/trace.safetensors" --layer 0; }
part_stats()
{
    "$program" forward -m "$model" -i "$trace" --stats "$work/stats" >/dev/null 2>"$err" || return 0
    mutate stats "$work/stats" "$program" stats "$work/stats"
}
part_tokenizer()
{
    [ -x "$engine" ] || return 0
    for json in "$KT_TEST_SOURCE"/tests/data/tokenizers/*/tokenizer.json "$KT_TEST_SOURCE"/tests/data/tokenizers/*.json; do
        [ -f "$json" ] && break
    done
    [ -f "$json" ] || return 0
    cp "$json" "$work/tokenizer.json"
    mutate tokenizer "$work/tokenizer.json" "$engine" tokenize "$work/tokenizer.json" --text "Who is it?"
}
part_grammar()
{
    [ ! -x "$engine" ] || count grammar sh "$KT_TEST_SOURCE/tests/campaign/grammar.sh" "$share" "$(seed grammar)"
}
# Random tokenizer.json files, beside Hugging Face's tokenizers.
part_tokens()
{
    [ -x "$engine" ] && "$PYTHON" -c 'import tokenizers' 2>/dev/null || return 0
    mkdir -p "$keep/tokens"
    PYTHONDONTWRITEBYTECODE=1 count tokens "$PYTHON" "$KT_TEST_SOURCE/tests/engine/text/compare_files.py" "$program" "$keep/tokens" \
        0 "$(seed tokens)" "$share"
}
# What is read of a plugin before its code runs. `kt plugin check` continues from there, which takes half a minute with a
# plugin that computes; so it gets one that refuses every layer.
part_plugin()
{
    sound=$dir/plugins/kt_sound.so
    "${KT_TEST_CC:-cc}" -std=gnu11 -O1 -shared -fPIC -I"$KT_TEST_SOURCE/include" -I"$KT_TEST_BUILD/include" -DNAME=sound \
        -o "$sound" "$KT_TEST_SOURCE/tests/plugins/broken.c" || { fail "broken.c does not compile"; return; }
    printf '[plugin.sound]\nenabled = yes\nmodule = kt_sound.so\n' >"$dir/shipped/sound.ini"
    whole=$share
    share=$(awk "BEGIN { print $share / 4 }")
    ATTACK_CPU=12 # plugins are given 10 seconds, for which a changed one may compute
    export ATTACK_CPU
    for name in sound attention bf16; do
        [ ! -f "$dir/plugins/kt_$name.so" ] ||
            count plugin "$attack" plugin "$share" "$(seed plugin)" "$dir/plugins/kt_$name.so" -- "$program" backends
    done
    count plugin "$attack" plugin "$share" "$(seed plugin)" "$sound" -- "$program" plugin check --quick --cases 1 --timeout 5 "$sound"
    unset ATTACK_CPU
    rm "$dir/shipped/sound.ini"
    share=$whole
}
part_prefix()
{
    [ -x "$engine" ] || return 0
    KT_KERNEL_CORE_THREADS=1 count prefix "$(real prefix)" "$share" "$(seed prefix)" "$model" "$work/prefix"
}
part_http() { count http sh "$KT_TEST_SOURCE/tests/campaign/http.sh" "$share" "$(seed http)"; }
part_shrink() { count shrink sh "$KT_TEST_SOURCE/tests/campaign/shrink.sh" "$share" "$(seed shrink)"; }
part_batches() { count batches "$(real batches)" "$share" "$(seed batches)"; }
part_views() { mkdir -p "$work/views" && count views "$(real views)" "$share" "$(seed views)" "$work/views"; }
part_forks() { count forks "$(real forks)" "$share" "$(seed forks)" "$bf16"; }
part_kill() { count kill "$attack" kill "$share" "$(seed kill)" "$work/killed" -- "$program" forward -m "$model" -i "$trace" --layer 0 --output "$work/killed"; }
# The power fails in a folder that COMMAND writes to: new, with what it wrote before, or with something older.
lose_power()
{
    rm -rf "$work/notes" && mkdir -p "$work/notes" "$work/power"
    count power "$attack" power "$work/notes" "$work/power" -- "$@"
}
part_power()
{
    three="$work/power/o --stats $work/power/s --record $work/power/r"
    # shellcheck disable=SC2086 # words
    for layer in 0 1; do # the second time over what the first one wrote
        lose_power "$program" forward -m "$model" -i "$trace" --layer $layer --output $three
    done
    mv "$work/power/s" "$work/used"
    for method in amx_int8 amx_int4 bf16; do
        rm -rf "$work/power"
        [ ! -f "$dir/plugins/kt_$method.so" ] || lose_power "$program" convert --input "$bf16" --output "$work/power" --method $method --resume
    done
    rm -rf "$work/power"
    for gpus in 1 2; do
        lose_power "$program" place "$work/used" --gpu-experts $gpus --output "$work/power/placed"
        lose_power "$program" config set core.threads $gpus --config "$work/power/kt.ini"
    done
    [ -x "$engine" ] || return 0
    rm -rf "$work/power"
    KT_KERNEL_CORE_THREADS=1 lose_power "$(real prefix)" 0 1 "$model" "$work/power/session"
    rm -rf "$work/power"
    head -c 600 "$KT_TEST_SOURCE/COPYING" >"$work/text"
    for context in 16 24; do
        lose_power "$engine" perplexity "$model" "$work/text" --context $context --save-logits "$work/power/logits"
    done
}
# fail_calls PART KIND RESULT COMMAND...: each call of that kind, once and from then on. Every one in turn takes
# hours, so a short run looks at each STEPth, from another one each time.
fail_calls()
{
    part=$1 kind=$2 result=$3
    shift 3
    FAULT_STEP=$(awk "BEGIN { step = int(($kind == 1 ? 2400 : 120) / $minutes); print step < 1 ? 1 : step }")
    export FAULT_STEP
    for sticky in 0 1; do
        FAULT_SEED=$(seed "$part")
        export FAULT_SEED
        count "$part" "$attack" faults "$kind" $sticky "$result" -- "$@"
    done
}
part_faults()
{
    for kind in 1 2 4 8 16 32; do
        fail_calls faults $kind "$work/o" "$program" forward -m "$model" -i "$trace" --layer 0 --output "$work/o"
    done
}
# fail_once RESULT COMMAND...: a call fails at each place of the code that no command before came to.
fail_once()
{
    result=$1
    shift
    now=$(date +%s)
    [ "$now" -ge "$places_end" ] || count places "$attack" places $((places_end - now)) "$keep/places" "$result" -- "$@"
}
part_places()
{
    places_end=$(awk "BEGIN { print int($(date +%s) + $share) }")
    [ "$keep/places" -nt "$program" ] || rm -f "$keep/places"
    . "$campaign/places.sh"
}
part_client()
{
    mkdir -p "$work/packed"
    for kind in 1 2 4 8 16 32; do
        fail_calls client $kind "$work/packed/o" "$(real client)" "$bf16" amx_int8 "$work/packed" "$work/packed/o"
    done
}
part_memory()
{
    mkdir -p "$work/packed"
    FAULT_STEP=1
    export FAULT_STEP
    count memory "$attack" faults 64 0 "$work/packed/o" -- "$(real client)" "$bf16" amx_int8 "$work/packed" "$work/packed/o"
    count memory "$attack" faults 64 0 "$work/o" -- "$program" forward -m "$model" -i "$trace" --layer 0 --output "$work/o"
}
part_fuzz()
{
    command -v "${CLANG:-clang}" >/dev/null || return 0
    formats="gguf safetensors folder ini tokenizer template output schema settings"
    for format in $formats; do
        log=$dir/fuzz.log
        mkdir -p "$keep/corpus-$format"
        (cd "$KT_TEST_BUILD" && sh "$KT_TEST_SOURCE/tests/fuzz/run" $format "$(awk "BEGIN { print int($share / 9) + 1 }")" \
            "$keep/corpus-$format") >"$log" 2>&1
        status=$?
        runs=$(sed -n 's/^#\([0-9]*\).*DONE.*/\1/p' "$log" | tail -n 1)
        [ $status -eq 0 ] || grep -A 10 -E 'ERROR|error:' "$log" | head -n 20 | sed "1s/^/$format: /" | found
        echo "fuzz ${runs:-0} $((status != 0)) 0 0 0" >>"$dir/rows"
    done
}

: >"$dir/rows"
for part in $wanted; do
    case " $parts " in *" $part "*) ;; *) fail "there is no part $part: $parts"; finish ;; esac
    part_$part
done
[ -s "$keep/campaign.csv" ] || echo commit,minutes,part,tried,crashes,hangs,wrong,left,seed >"$keep/campaign.csv"
commit=$(cd "$KT_TEST_SOURCE" && git rev-parse --short HEAD 2>/dev/null || echo unknown)
awk '{ for (i = 2; i < 7; i++) sum[$1, i] += $i; if (!seen[$1]++) order[++n] = $1 }
    END { for (k = 1; k <= n; k++) { p = order[k]; print p, sum[p, 2], sum[p, 3], sum[p, 4], sum[p, 5], sum[p, 6] } }' \
    "$dir/rows" >"$dir/table"
printf '%-12s %9s %8s %6s %6s %6s\n' part tried crashes hangs wrong left
while read -r part tried crashes hangs wrong left; do
    printf '%-12s %9s %8s %6s %6s %6s\n' "$part" "$tried" "$crashes" "$hangs" "$wrong" "$left"
    echo "$commit,$minutes,$part,$tried,$crashes,$hangs,$wrong,$left,$(seed "$part")" >>"$keep/campaign.csv"
    [ "$crashes$hangs$wrong$left" = 0000 ] || { cp "$dir/found" "$out"; fail "$part: see $keep/findings"; }
done <"$dir/table"
finish
