#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 levels of the plugin llamafile, emulated, beside its others: the same bits from all.
plugin=$KT_TEST_BUILD/tests/checkkernel/emulated/.libs/kt_llamafile.so
if [ ! -e "$plugin" ]; then
    echo "skipped: SIMDe (Debian: libsimde-dev) or a compiler for AVX2 is missing, or llamafile was not built"
    exit 77
fi
if [ -z "${EMULATOR:-}" ] && ! grep -qw avx2 /proc/cpuinfo; then
    echo "skipped: this CPU has no AVX2 to emulate AVX-512 with"
    exit 77
fi
for repack in 1 0; do
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} \
        "$KT_TEST_BUILD/tests/checkkernel/checkkernel" --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" --emulated \
        --cases 4 --set repack=$repack || exit
done
