#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does a function with wide vectors leave their upper halves clean, whatever -O the project is built with? Else scalar
# code after it crawls on Intel's CPUs.
set -eu
build=${KT_TEST_BUILD:?run by make check}
cc=${KT_TEST_CC:-cc}
case $($cc -dumpmachine) in
x86_64*) ;;
*) echo "SKIP: vzeroupper is an instruction of x86"; exit 77 ;;
esac
flags=$(sed -n 's/^KT_UPPER_CFLAGS = *//p' "$build/Makefile")
grep -q '^PLAIN_CFLAGS = .*\$(KT_UPPER_CFLAGS)' "$build/Makefile" || { echo "FAIL: PLAIN_CFLAGS lacks KT_UPPER_CFLAGS"; exit 1; }
kernel='#include <immintrin.h>
void twice(float *x);
void twice(float *x) { _mm256_storeu_ps(x, _mm256_add_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(x))); }'
for level in -O1 -O2 -O3; do
    # shellcheck disable=SC2086 # words
    printf '%s\n' "$kernel" | $cc -x c -std=gnu11 -mavx2 $level $flags -S -o - - | grep -q vzeroupper || {
        echo "FAIL: with $level $flags a function ends without vzeroupper"
        exit 1
    }
done
echo "vzeroupper with -O1, -O2 and -O3"
