#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin rawint4 that this CPU can run, with both forms of activations.
plugin=$KT_TEST_BUILD/.libs/kt_rawint4.so
if [ ! -e "$plugin" ]; then
    echo "SKIP: the backend rawint4 was not built"
    exit 77
fi
run()
{
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
        --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" "$@" || exit
}
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
run --cases $((2 * cases))
run --cases $cases --set activations=1 # int8
