#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin attention, emulated: the tests of attention and of rows with a
# third of their cases; without levels that this CPU has, which have run all of them by themselves.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated attention
avx2=avx2
[ -z "${KT_KERNEL_CPU_VARIANT:-}" ] || avx2=
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/.libs"
cp "$plugin" "$work/.libs/kt_attention.so"
for test in attention/test_attention rows/test_route; do
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    KT_TEST_SKIP="scalar $avx2 $same" KT_TEST_QUICK=1 KT_TEST_BUILD=$work \
        "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/core/$test" || exit 1
done
