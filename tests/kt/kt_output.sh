#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Output of kt: JSON, CSV and tables, and writes that fail.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
model=$data/tiny-moe-q4_k_m.gguf

if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
    check_json() { python3 -m json.tool "$out" >/dev/null 2>&1; }
elif command -v jq >/dev/null; then
    check_json() { jq . "$out" >/dev/null 2>&1; }
else
    echo "JSON is not checked: neither python3 nor jq is here"
    check_json() { true; }
fi

# Each verb in each format; standard output holds data only.
formats()
{
    kt "$@" --format json
    exits 0
    check_json || fail "the output is not JSON"
    says '"schema": "kt\.'
    says '"version": 1'
    says '"rows": \['
    kt "$@" --format csv
    exits 0
    head -n 1 "$out" | grep -q '^[a-z_,0-9]*.$' || fail "the first line must name fields"
    awk '!/\r$/ { bad = 1 } END { exit bad }' "$out" || fail "a CSV line must end with CR LF"
    kt "$@" --format table
    exits 0
    ! grep -q "$(printf '[\033\r]')" "$out" || fail "a table in a file has no control characters"
    ! grep -q ' $' "$out" || fail "a table has no spaces at the end of a line"
}
formats version
formats backends
formats backends --options
formats config show
formats config path
formats config check
formats doctor
formats tune --show
formats inspect "$model"
formats inspect "$model" --layer 1
formats inspect "$model" --tensors
formats explain --model "$model"
formats forward --model "$model" --input "$trace" --check --backend reference --layer 3 --stats "$dir/use"
formats stats "$dir/use"
formats stats --experts "$dir/use"
formats place "$dir/use" --gpu-experts 3 --placement uniform --output "$dir/masks"
formats place "$dir/use" --update "$dir/masks" --max-moves 2

# Numbers are numbers, truth values are truth values, what is not known is null.
kt inspect "$model" --format json
says '"bytes": 884736'
says '"bias": false'
kt forward --model "$data/tiny-moe-iq4_xs-l0-l3.gguf" --input "$trace" --check --backend reference --layer 0 \
    --format json
says '"reference_error": null'
says '"recorded_error": 0\.0\(374\|53[01]\)' # of a checkout's model, of a tarball's

# Layers that look the same share a line, neighbors or not; who refused is shown when asked for.
kt explain --model "$model" --set core.backend=reference
exits 0
says '^0,3  *q4_k q4_k q6_k  *reference  *scalar '
says '^1-2  *q4_k '
[ "$(grep -c '^[0-9]' "$out")" -eq 2 ] || fail "there must be two lines of layers"
printf '[plugin.absent]\nmodule = kt_absent.so\n' >"$dir/shipped/absent.ini"
kt explain --model "$model"
exits 0
says_not '  refused  '
says '; -v shows why\.$'
kt explain --model "$model" -v
exits 0
says '^0,3,1-2  *absent  *refused  *kt_absent.so is not in '
says_not 'shows why'
kt explain --model "$model" --format json
says '"reason": "kt_absent.so is not in '
[ "$(grep -c '"reason": "kt_absent.so' "$out")" -eq 21 ] || fail "JSON has a candidate for each layer and linear, and none for routers"
kt explain --model "$model" --backend absent
exits 0
says '^0,3,1-2  *absent  *refused '
# A name that nothing has is said once, and who set it.
kt explain --model "$model" --backend absnt
exits 2
[ "$(grep -c absnt "$err")" -eq 1 ] && [ ! -s "$out" ] || fail "an unknown backend is named once"
warns 'error: no backend absnt is configured, did you mean absent?'
kt forward --model "$model" --input "$trace" --backend absnt
exits 1
[ "$(grep -c absnt "$err")" -eq 1 ] || fail "an unknown backend is named once"
printf '[core]\nbackend = absnt\n' >"$dir/wish.ini"
kt explain --model "$model" --config "$dir/wish.ini"
exits 1
warns 'wish.ini:2: backend = absnt: no such backend is configured, did you mean absent?'
rm "$dir/shipped/absent.ini"

# A reason does not begin with the name that stands beside it.
if with_plugin bf16; then
    kt explain --model "$model" -v
    exits 0
    says '^0,3,1-2  *bf16  *[a-z0-9_]*  *refused  *the gate projection is q4_k'
fi

# A quote, a comma and UTF-8 in a name: a table counts columns, not bytes; CSV quotes.
odd="$dir/a\"b, wörter 漢字.ini"
echo '[core]
threads = 1' >"$odd"
kt config show --config "$odd" --format csv
exits 0
says '"/.*a""b, wörter 漢字.ini:2"'
kt config path --config "$odd" --format json
exits 0
check_json || fail "the output is not JSON"
says 'a\\"b, w'
kt config path --config "$odd"
says '漢字.ini  read$'

# A name that is not UTF-8 is still shown, and JSON stays valid.
bad="$dir/$(printf 'x\377y').ini"
echo '[core]' >"$bad"
kt config path --config "$bad" --format json
exits 0
check_json || fail "the output is not JSON"
says 'x?y.ini'

# Output that cannot be written is an error: a full disk, and, without a word, a reader that went away.
if [ -c /dev/full ]; then
    for format in table json csv; do
        command_line="kt config show --format $format >/dev/full"
        kt_run config show --format $format >/dev/full 2>"$err"
        code=$?
        : >"$out"
        exits 1
        warns '^kt.*: error: standard output: '
    done
    command_line="kt --help >/dev/full"
    kt_run --help >/dev/full 2>"$err"
    code=$?
    exits 1
fi
mkfifo "$dir/pipe"
for format in table json csv; do
    command_line="kt config show --format $format, into a closed pipe"
    head -c 0 "$dir/pipe" >/dev/null &
    exec 5>"$dir/pipe"
    wait $!
    kt_run config show --format $format >&5 2>"$err"
    code=$?
    exec 5>&-
    exits 1
    is_silent
done
finish
