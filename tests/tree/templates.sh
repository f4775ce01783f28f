#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# templates.sh - does each header of plugins compile alone, and each template (*_tmpl.h) with the parameters of
# header_params.h, and does a template say which parameter is missing? A header that names a set of vectors is
# compiled for that set, the others for plain C and for the compiler's own set.
set -u
source=${KT_TEST_SOURCE-$(cd "$(dirname "$0")/../.." && pwd)}
build=${KT_TEST_BUILD-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source" || exit 1
cc=${KT_TEST_CC:-cc}
cross=aarch64-linux-gnu-gcc
x86_avx2='-mavx2 -mfma -mf16c'
x86_avx512="$x86_avx2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mavx512vbmi"

# can FLAGS... - does the compiler know them?
can() {
    # shellcheck disable=SC2086 # words
    echo 'int none;' | $cc -x c -fsyntax-only $1 - 2>/dev/null
}
case $($cc -dumpmachine) in
x86_64*) own=avx2 arm=$(command -v $cross) ;;
aarch64*) own=neon arm=$cc ;;
*) own= arm= ;;
esac

has_avx512=
[ "$own" != avx2 ] || ! can "$x86_avx512" || has_avx512=yes

# flags SET - sets the variable `flags` to what compiles headers for it, or fails.
set_flags() {
    compiler=$cc
    case $1 in
    scalar) flags=-DSIMD=scalar ;;
    avx2) [ "$own" = avx2 ] && flags="-DSIMD=avx2 $x86_avx2" ;;
    avx512) [ "$has_avx512" ] && flags="-DSIMD=avx512 -DVEC_VNNI=1 -DVEC_BF16=1 $x86_avx512" ;;
    neon) compiler=$arm && [ "$arm" ] && flags='-DSIMD=neon -DVEC_DOTPROD=1 -DVEC_I8MM=1 -march=armv8.2-a+dotprod+i8mm' ;;
    sve) compiler=$arm && [ "$arm" ] && flags='-DSIMD=neon -DVEC_SVE=1 -march=armv8.2-a+sve -msve-vector-bits=256' ;;
    esac
}

# The compiler's own header of intrinsics takes longer than all the rest, so it is compiled once for a set. A file of
# its name is found in its place, so that whoever uses it and does not include it is seen.
if [ "$own" = avx2 ]; then
    for set in scalar avx2 avx512; do
        set_flags $set || continue
        mkdir "$work/$set"
        echo '#include <immintrin.h>' >"$work/$set/intrinsics.h"
        # shellcheck disable=SC2086 # words
        $cc -x c-header -std=gnu11 $flags "$work/$set/intrinsics.h" -o "$work/$set/intrinsics.h.gch" || exit 1
    done
    mkdir "$work/named"
    echo '#define INCLUDES_INTRINSICS' >"$work/named/immintrin.h"
fi

# compile FILE FLAG... - messages go to FILE.messages. Of the functions that a template wants it is enough that they
# are declared.
compile() {
    file=$1
    shift
    # shellcheck disable=SC2086 # words
    $compiler -fsyntax-only -std=gnu11 -Wall -Wundef -Werror=undef -Werror=implicit -Werror=incompatible-pointer-types \
        -Werror=int-conversion "$@" $flags -I . -I include -I "$build/include" ${KT_TEST_CPPFLAGS-} "$file" \
        2>"$file.messages" && { ! [ -s "$file.messages" ] || ! grep -q ' redefined' "$file.messages"; }
}

# Flags for the parameters of a template.
params() {
    case $1 in
    plugins/common/*) room=${1#plugins/common/} && printf '%s ' "-DROOM_${room%%/*}" ;;
    *) printf '%s ' -DROOM_own ;;
    esac
    case $1 in
    */gemm/epilogue_tmpl.h) printf '%s ' -DPARAM_ACC ;;
    */coded/kernel_amx_tmpl.h) printf '%s ' -DPARAM_TILED -DPARAM_PANEL_OWN ;;
    *amx*) printf '%s ' -DPARAM_TILED ;;
    plugins/avx512_fp8/*) printf '%s ' "-DDECODER_H=\"plugins/avx512_fp8/decode_$2.h\"" ;;
    esac
}

# What a header's name says of the sets that it is for.
sets() {
    case $1 in
    *sve_length.h) echo neon ;;
    *sve*) echo sve ;;
    plugins/llamafile/*/row_block_avx2.h | plugins/llamafile/*/bounded*) echo avx2 ;;
    *neon* | *mmla* | *sdot*) echo neon ;;
    *simd/avx512* | *decode_avx512.h | *vbmi* | *int4_group/dequantize* | \
        plugins/attention/pairs* | plugins/attention/tiles* | plugins/attention/rows_split.h | \
        plugins/rawint4/expand.h | \
        plugins/llamafile/*/*row_block* | plugins/llamafile/pack/shared_scale.h) echo avx512 ;;
    *avx2* | *x86* | plugins/avx512_fp8/shifted_tmpl.h) echo avx2 ;;
    *simd/scalar* | *decode_scalar.h | plugins/llamafile/multiply/dequantize.h) echo scalar ;;
    *) echo scalar $own ;;
    esac
}

check() {
    header=$1
    file=$work/header.$n.c
    status=0
    of_header=$(sets "$header")
    for set in $of_header; do
        set_flags "$set" || {
            echo "SKIP: $header is for $set, for which there is no compiler"
            continue
        }
        included=
        case "$set $header" in
        "scalar "*_tmpl.h | "scalar "*/product.h | avx*) common=$work/$set ;;
        "scalar "*) common=$(grep -q 'simd/\|prefetch\.h\|immintrin' "$header" && echo "$work/$set") ;;
        *) common= ;;
        esac
        if [ "$common" ] && [ "$own" = avx2 ]; then
            flags="$flags -I $work/named -include $common/intrinsics.h"
            ! grep -q '_mm[0-9]*_\|__m[0-9]' "$header" || included='#ifndef INCLUDES_INTRINSICS
#error it uses intrinsics and does not include them
#endif'
        fi
        case $header in
        *_tmpl.h)
            printf '#include "tests/tree/header_params.h"\n#include "%s"\n%s\n' "$header" "$included" >"$file"
            # shellcheck disable=SC2046 # words
            compile "$file" $(params "$header" "$set") && continue
            ;;
        *)
            printf '#include "%s"\n%s\n' "$header" "$included" >"$file"
            compile "$file" && continue
            ;;
        esac
        echo "FAIL: $header does not compile alone for $set:"
        grep -m 3 -E 'error|fatal|redefined' "$file.messages"
        status=1
    done
    for name in $(sed -n 's/^#error ".*: define \([A-Z_0-9]*\)"$/\1/p' "$header"); do
        set=${of_header%% *}
        set_flags "$set" || continue
        # It must say so before anything else, so nothing after it is read.
        # shellcheck disable=SC2046 # words
        if compile "$file" $(params "$header" "$set") "-DWITHOUT_$name" -Wfatal-errors; then
            echo "FAIL: $header compiles without $name"
            status=1
        elif ! grep -q "error.*define $name" "$file.messages"; then
            echo "FAIL: $header does not say that $name is missing:"
            grep -m 3 error "$file.messages"
            status=1
        fi
    done
    return $status
}
failed=0 n=0
for header in $(find plugins -name '*.h' | sort); do
    n=$((n + 1))
    check "$header" >"$work/output.$n" 2>&1 || failed=1
    cat "$work/output.$n"
done
# This test itself: a template that uses what it neither wants nor includes is found.
printf '#define NONE_ROWS(job) ((job)->rows)\nint none(const struct kt_product *job);\nenum kt_status none_status;\n' >"$work/none_tmpl.h"
if check "$work/none_tmpl.h" >/dev/null 2>&1; then
    echo "FAIL: templates.sh takes a template that uses types it does not include"
    failed=1
fi
# And a header of the widest set that uses what stands in another one.
if [ -d "$work/avx512" ]; then
    echo 'static inline __m512 none(void) { return _mm512_setzero_ps(); }' >"$work/block_none.h"
    sets() { echo avx512; }
    if check "$work/block_none.h" >/dev/null 2>&1; then
        echo "FAIL: templates.sh takes a header that uses intrinsics it does not include"
        failed=1
    fi
fi
echo "$n headers"
exit $failed
