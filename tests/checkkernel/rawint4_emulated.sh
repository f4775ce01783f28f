#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin rawint4, emulated, beside its others.
plugin=$KT_TEST_BUILD/tests/checkkernel/emulated/.libs/kt_rawint4.so
if [ ! -e "$plugin" ]; then
    echo "SKIP: SIMDe (Debian: libsimde-dev) or a compiler for AVX2 is missing, or rawint4 was not built"
    exit 77
fi
if [ -z "${EMULATOR:-}" ] && ! grep -qw avx2 /proc/cpuinfo; then
    echo "SKIP: this CPU has no AVX2 to emulate AVX-512 with"
    exit 77
fi
run()
{
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
        --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" --emulated "$@" || exit
}
run --cases 24
run --cases 12 --set activations=1 # int8
