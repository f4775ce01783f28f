#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin avx512_fp8 that this CPU can run.
plugin=$KT_TEST_BUILD/.libs/kt_avx512_fp8.so
if [ ! -e "$plugin" ]; then
    echo "SKIP: the backend avx512_fp8 was not built"
    exit 77
fi
cases=48
[ -z "${KT_TEST_QUICK:-}" ] || cases=16
run()
{
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
        --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" "$@" || exit
}
run --cases $cases
run --cases $((cases / 4)) --no-subnormal
