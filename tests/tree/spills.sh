#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spills.sh - do sums stay in registers? In each innermost loop of the built kernels that multiplies, vectors that are
# read from the stack or written there are counted. A function with more than `most` needs a line of `exceptions`, with
# the most that it may have and why; a line that nothing needs any more fails, too. What is kept in memory is the
# compiler's affair, so gcc 12 with -O2 alone is held to it.
set -eu
build=${KT_TEST_BUILD:?run by make check}
cc=${KT_TEST_CC:-cc} most=4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "SKIP: $*"; exit 77; }

# kernel, function, accesses, reason
exceptions='
llamafile_avx2    *                    92  parts of codes, scales and sums of 4 rows: 16 registers are few
llamafile_avx_vnni *                   79  the same
llamafile_avx512* *_compact_*           9  grids are looked up while sums wait
llamafile_avx512_v* q?_k_both          10  planes of two half panels beside 16 sums
attention_avx2    attend_floats         6  8 sums and the largest of each row
attention_avx2    multiply_pairs_?      5  sums of 8 rows take all registers
attention_avx2    rows_route           11  maxima of the choice, in memory as they are numbered
amx_int4_*        pack_group            8  weights that are loaded: no product of rows
amx_int?_av?*     multiply_gate_up     10  epilogue: constants of the exponential function
b*_av?*           multiply_gate_up     10  the same
rawint4_avx2      multiply_gate_up      6  the same
avx512_fp8_avx2   multiply_gate_up      6  the same
amx_int4_av?*     int4_microkernel_*   22  the totals wait while a group is added up
amx_int4_amx      int4_microkernel_6*   7  the same
rawint4_avx2      e2m1_*               22  the table of codes takes registers of sums
rawint4_avx512_*  *_8                  60  sums of a tile and of its group are 32 vectors
rawint4_avx512    e2m1_*               26  the table, and products in order
*_avx512          microkernel_7        15  sums of a tile beside those of all tiles
avx512_fp8_avx*   gemv_?_nan           38  NaN takes more constants, and is rare
avx512_fp8_avx512 gemv_?_numbers       20  sums of a tile and of its group are 32 vectors
'

# count FILE... - the kernel, the function and the accesses of its worst loop, for each with more than `most`. A loop
# ends with a jump back; one that calls, returns or jumps elsewhere is none of those that matter.
count()
{
    objdump -d --no-show-raw-insn "$@" | awk -F '\t' -v most=$most '
    function judge(   i, k, s, e, worst, products, n) {
        for (i = 1; i <= loops; i++) {
            s = first[i]
            e = last[s]
            for (k = 1; k <= loops && !(first[k] > s && last[first[k]] <= e); k++)
                ;
            products = n = 0
            for (; k > loops && s <= e && what[s] != "leaves"; s++) {
                if (what[s] == "jmp" && !(goal[s] in at && at[goal[s]] >= first[i] && at[goal[s]] <= e))
                    break
                products += what[s] ~ /product/
                n += what[s] ~ /stack/
            }
            if (s > e && products && n > worst)
                worst = n
        }
        if (worst > most)
            print file, name, worst
    }
    /^[0-9a-f]+ </ || /file format/ {
        judge()
        split("", at); split("", last); split("", what)
        rows = loops = framed = 0
    }
    /file format/ { file = $0; sub(/_la-[^\/]*$/, "", file); sub(/\.o: .*/, "", file); sub(/.*\/(lib)?/, "", file) }
    /^[0-9a-f]+ </ { name = $1; gsub(/^[^<]*<|>:$/, "", name) }
    NF < 2 { next }
    { place = $1; gsub(/[ :]/, "", place); at[place] = ++rows }
    $2 ~ /^j/ {
        split($2, word, " ")
        if (word[1] == "jmp") {
            what[rows] = "jmp"
            goal[rows] = word[2]
        }
        if (word[2] in at) {
            if (!(at[word[2]] in last))
                first[++loops] = at[word[2]]
            last[at[word[2]]] = rows
        }
        next
    }
    $2 ~ /^(call|ret)/ { what[rows] = "leaves" }
    $2 ~ /^(vpdpbusd|vpmaddubsw|vpmaddwd|vfn?madd|vdpbf16ps|tdp)/ { what[rows] = "product" }
    index($2, "mov") && index($2, "%rsp,%rbp") { framed = 1 }
    (index($2, "(%rsp") || framed && index($2, "(%rbp")) && $2 ~ /%[yz]mm/ && !index($2, "broadcast") {
        what[rows] = what[rows] "stack"
    }
    END { judge() }'
}

case $(echo "__x86_64__ __GNUC__ __clang__" | $cc -E -P -) in
"1 12 __clang__") ;;
*) skip "the numbers hold for gcc 12 on x86-64, not for $cc" ;;
esac
command -v objdump >/dev/null || skip "no objdump (Debian: apt-get install binutils)"
[ -z "${EMULATOR:-}${KT_TEST_SANITIZERS:-}" ] || skip "the numbers hold for plain native builds"
flags=$(sed -n 's/^CFLAGS = //p' "$build/Makefile")
case $flags in
"-g -O2" | -O2) ;;
*) skip "the numbers hold for CFLAGS='-g -O2', not '$flags'" ;;
esac

# This test itself: a loop with more sums than registers is found.
# each FORMAT - a line for each of 24 sums
each() { awk -v format="$1\n" 'BEGIN { for (i = 0; i < 24; i++) { line = format; gsub(/N/, i, line); printf "%s", line } }'; }
{
    echo '#include <immintrin.h>'
    echo 'void spill(__m256 *sums, const float *x, long n) {'
    each '__m256 sN = sums[N];'
    echo 'for (long k = 0; k < n; k++) { __m256 w = _mm256_loadu_ps(x + 8 * k);'
    each 'sN = _mm256_fmadd_ps(w, w, sN);'
    echo '}'
    each 'sums[N] = sN;'
    echo '}'
} >"$work/spill.c"
$cc -O2 -mavx2 -mfma -c "$work/spill.c" -o "$work/spill.o"
count "$work/spill.o" | grep -q '^spill spill [1-9]' || {
    echo "FAIL: spills.sh finds nothing where sums must spill"
    exit 1
}

# Kernels that are installed; those with emulated instructions, which tests build beside them, are no matter of speed.
set --
for object in "$build"/plugins/*/.libs/lib*_la-kernel_*.o; do
    case $object in
    */libmodelled_* | */libcheck_*) ;;
    *) [ ! -f "$object" ] || set -- "$@" "$object" ;;
    esac
done
[ $# -gt 0 ] || skip "no kernels of vector levels were built"
count "$@" >"$work/counted"
echo "$exceptions" | awk -v counted="$work/counted" -v files="$*" '
function matches(pattern, text) {
    gsub(/\*/, ".*", pattern)
    gsub(/\?/, ".", pattern)
    return text ~ "^" pattern "$"
}
BEGIN { count = split(files, built, " ") }
NF { kernel[++n] = $1; function_of[n] = $2; allowed[n] = $3 }
END {
    while ((getline line <counted) > 0) {
        split(line, word, " ")
        for (i = 1; i <= n && !(matches(kernel[i], word[1]) && matches(function_of[i], word[2])); i++)
            ;
        needed[i] = 1
        if (i > n || word[3] > allowed[i]) {
            print "FAIL: " word[2] " of " word[1] " has " word[3] " vectors on the stack in a loop: " \
                (i > n ? "keep its sums in registers, or say in spills.sh why not" : "its exception says " allowed[i])
            failed = 1
        }
    }
    for (i = 1; i <= n; i++) {
        for (k = 1; k <= count && !matches(".*/lib" kernel[i] "_la-.*", built[k]); k++)
            ;
        if (k <= count && !needed[i]) {
            print "FAIL: nothing needs the exception " kernel[i] " " function_of[i] " of spills.sh any more: drop it"
            failed = 1
        }
    }
    exit failed
}'
echo "$# files"
