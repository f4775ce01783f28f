#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend blis_int8 in use: which level it takes, why not AMD's library, and the same bits from all.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
unset KT_KERNEL_CPU_VARIANT # level aocl needs avx512_vnni
with_plugin blis_int8 || skip "the backend blis_int8 was not built"
model=$data/tiny-moe-bf16-l0-l3.gguf
store=$dir/store
for variant in good old; do
    cp "$KT_TEST_BUILD/plugins/blis_int8/tests/aocl_$variant.so" "$dir/libaocl-$variant.so"
    chmod 755 "$dir/libaocl-$variant.so"
done
runs="--model $model --input $trace --backend blis_int8"
level=avx512_vnni
{ [ -z "${EMULATOR:-}" ] && grep -qw avx512_vnni /proc/cpuinfo; } || level=

# ---- without the library ----
none="--set plugin.blis_int8.library=none"
# shellcheck disable=SC2086 # words of several arguments
{
kt backends blis_int8 $none --format csv
exits 0
[ "$(field blis_int8 state)" = loaded ] || fail "it is loaded"
[ "$(field blis_int8 level)" != aocl ] || fail "there is no library for level aocl"
[ -z "$level" ] || says ',"*not aocl: library = none'
kt forward $runs $none --tolerance 5e-2 --check --output "$dir/a.safetensors"
exits 0
says ' blis_int8 '
kt forward $runs $none --threads 1 --output "$dir/b.safetensors"
exits 0
cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "one thread gives another output"
kt convert --input "$model" --output "$store" --method blis_int8 $none
exits 0
kt verify "$store"
exits 0
says '^ *3  blis_int8  amx_int8-1 .* ok$'
}

# The same bytes and the same bits as amx_int8, whatever level that takes.
if with_plugin amx_int8; then
    kt convert --input "$model" --output "$dir/amx" --method amx_int8
    exits 0
    for file in "$store"/layer-*; do
        tail -c 1000000 "$file" >"$dir/1"
        tail -c 1000000 "$dir/amx/${file##*/}" >"$dir/2"
        cmp "$dir/1" "$dir/2" || fail "a store of amx_int8 has other bytes"
    done
fi

# ---- with it, where the CPU has what it needs ----
kt backends blis_int8 --format csv
case $(field blis_int8 levels) in
*aocl*) ;;
*) finish ;; # another architecture, or an old compiler
esac
if [ -z "$level" ]; then
    kt backends blis_int8 --set "plugin.blis_int8.library=$dir/libaocl-good.so" --set plugin.blis_int8.level=aocl
    exits 0
    says 'refused .*level = aocl needs '
    finish
fi
good="--set plugin.blis_int8.library=$dir/libaocl-good.so"
# shellcheck disable=SC2086
{
kt backends blis_int8 $good --format csv
exits 0
[ "$(field blis_int8 level)" = aocl ] || fail "its level is aocl"
[ -z "$(field blis_int8 reason)" ] || fail "there is nothing to say against it"
kt forward $runs $none --set plugin.blis_int8.level=avx512_vnni --output "$dir/a.safetensors"
for threads in 1 2 5; do
    kt forward $runs $good --threads $threads --output "$dir/b.safetensors" --format csv
    exits 0
    [ "$(field 0 level)" = aocl ] || fail "it runs at level aocl"
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the library gives another output"
done
kt forward $runs $good --check --tolerance 5e-2
exits 0
# Stores hold what the other levels hold, and are used at every level.
kt convert --input "$model" --output "$dir/made-at-aocl" --method blis_int8 $good
exits 0
for made in "$store" "$dir/made-at-aocl"; do
    kt forward --model "$made" --input "$trace" $good --output "$dir/b.safetensors" --format csv
    exits 0
    [ "$(field 0 backend),$(field 0 level)" = blis_int8,aocl ] || fail "it runs at level aocl"
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the store gives another output"
done
for file in "$store"/layer-*; do
    cmp "$file" "$dir/made-at-aocl/${file##*/}" || fail "a store depends on the level"
done
HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
export HWLOC_SYNTHETIC
for from in "$model" "$store"; do
    kt forward --model "$from" --input "$trace" --backend blis_int8 $good --check --tolerance 5e-2
    exits 0
    says '^NUMA nodes: *2'
done
unset HWLOC_SYNTHETIC
}

# ---- libraries that are not taken, and how it says so ----
# $1 value of library, $2 what is said
passes_over()
{
    kt explain -v --model "$model" --set core.backend=blis_int8 --set "plugin.blis_int8.library=$1"
    exits 0
    says "blis_int8 .*avx512_vnni .*chosen .*not aocl: $2"
    kt backends blis_int8 --set "plugin.blis_int8.library=$1" --set plugin.blis_int8.level=aocl
    exits 0
    says "refused .*level = aocl: $2"
}
passes_over "$dir/libaocl-old.so" ".*libaocl-old.so is version \"AOCL-BLAS 4.1.0 Build 20230630\"; 4.2 is needed"
passes_over /nowhere/libblis.so '/nowhere/libblis.so does not exist'
passes_over libkt-nobody-has-this.so 'libkt-nobody-has-this.so: cannot open shared object file'
passes_over lib/libblis.so 'library = lib/libblis.so: neither an absolute path nor a name'
chmod 777 "$dir/libaocl-good.so"
passes_over "$dir/libaocl-good.so" '.*libaocl-good.so is writable by everybody'
finish
