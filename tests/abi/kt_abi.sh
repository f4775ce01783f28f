#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plugin that was built with the headers of ABI 1.0 (tests/abi/1.0) is loaded and computes what it should.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
headers=$KT_TEST_SOURCE/tests/abi/1.0/kt
command_line="headers of ABI 1.0"
: >"$out"
: >"$err"
grep -qx '#define KT_PLUGIN_ABI_MAJOR 1' "$headers/plugin.h" &&
    grep -qx '#define KT_PLUGIN_ABI_MINOR 0' "$headers/plugin.h" || fail "$headers is not ABI 1.0"

mkdir "$dir/plugins"
cp "$KT_TEST_BUILD/tests/abi/1.0/kt_example.so" "$dir/plugins"
chmod go-w "$dir/plugins/kt_example.so"
printf '[plugin.example]\nmodule = %s\n' "$dir/plugins/kt_example.so" >"$dir/shipped/example.ini"
kt backends --format csv
exits 0
says '^example,loaded,'
[ "$(field example linears)" = false ] || fail "ABI 1.0 has no linears"
[ "$(field reference linears)" = true ] || fail "the reference takes linears"
for layer in 0 3; do
    for file in bf16-l0-l3 q4_k_m iq4_xs-l0-l3; do
        kt forward --model "$data/tiny-moe-$file.gguf" --layer $layer --input "$trace" --backend example --check
        exits 0
        says example
    done
done
# "any" says nothing of what it keeps: it runs only where it is named.
kt explain "$data/tiny-moe-q4_k_m.gguf"
exits 1
says 'example (unknown: a plugin of ABI 1\.0)'
kt explain "$data/tiny-moe-q4_k_m.gguf" --backend example
exits 0
says 'ROUNDED TO'

# It is not asked for linears, which its header does not know.
says '^blk.0-3.attn_q  *4  q4_k  *reference  scalar .* yes$'
says '^blk.0-3.attn_q,[a-z0-9_.,-]*  *example  *scalar  *refused  *it takes experts only: it was built for plugin ABI 1\.0$'
kt explain "$data/tiny-moe-q4_k_m.gguf" --backend example --set core.strict=yes
exits 0
says 'not supported by backend example: it takes experts only: it was built for plugin ABI 1\.0 (core.strict'
kt explain "$data/tiny-moe-q4_k_m.gguf" --backend example --set core.strict=yes --format json
exits 0
says '"n_linears_failed": 17' # the other four are routers

kt doctor
exits 0
says '^backend example  *ok'
says '^self-test example  *ok'

kt plugin check --quick --cases 1 "$dir/plugins/kt_example.so"
says '^load .* ok .* built for plugin ABI 1\.0$'
if grep -q __asan_init "$dir/plugins/kt_example.so"; then # a constructor in each plugin
    finish
fi
exits 0
is_silent
finish
