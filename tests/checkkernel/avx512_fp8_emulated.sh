#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin avx512_fp8, emulated, beside its others.
plugin=$KT_TEST_BUILD/tests/checkkernel/emulated/.libs/kt_avx512_fp8.so
if [ ! -e "$plugin" ]; then
    echo "SKIP: SIMDe (Debian: libsimde-dev) or a compiler for AVX2 is missing, or avx512_fp8 was not built"
    exit 77
fi
if [ -z "${EMULATOR:-}" ] && ! grep -qw avx2 /proc/cpuinfo; then
    echo "SKIP: this CPU has no AVX2 to emulate AVX-512 with"
    exit 77
fi
# shellcheck disable=SC2086 # an emulator comes with its arguments
exec "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} \
    "$KT_TEST_BUILD/tests/checkkernel/checkkernel" --plugin "$plugin" --cases 24 --seed "${KT_TEST_SEED:-20261121}" --emulated
