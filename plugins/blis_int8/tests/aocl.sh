#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Level aocl of blis_int8 with AMD's library itself, the one that ./configure --with-aocl=DIR names.
program=$KT_TEST_BUILD/plugins/blis_int8/tests/test_aocl
if [ -z "${KT_TEST_AOCL:-}" ]; then
    echo "SKIP: no AOCL to test with: ./configure --with-aocl=DIR names one (AOCL-BLAS 4.2 or later, or AOCL-DLP)"
    exit 77
fi
if [ ! -e "$program" ]; then
    echo "SKIP: the backend blis_int8 or libcheck is missing"
    exit 77
fi
if [ -n "${EMULATOR:-}" ] || ! grep -qw avx512_vnni /proc/cpuinfo; then
    echo "SKIP: AOCL's int8 product needs a CPU with AVX512_VNNI"
    exit 77
fi
for name in libaocl-dlp.so libblis-mt.so libblis.so; do
    found=$(find -L "$KT_TEST_AOCL" -name "$name*" -type f | sort | head -n 1)
    [ -z "$found" ] || break
done
if [ -z "$found" ]; then
    echo "FAIL: neither libaocl-dlp.so nor libblis-mt.so nor libblis.so is below $KT_TEST_AOCL"
    exit 1
fi
echo "$found"
KT_CHECK_AOCL=$(realpath "$found")
export KT_CHECK_AOCL
"$KT_TEST_BUILD/libtool" --mode=execute "$program" || exit
exec "$KT_TEST_BUILD/libtool" --mode=execute "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
    --plugin "$KT_TEST_BUILD/.libs/kt_blis_int8.so" --level aocl --cases 24 --seed 20261121 \
    --set library="$KT_CHECK_AOCL"
