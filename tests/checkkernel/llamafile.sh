#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin llamafile that this CPU can run.
plugin=$KT_TEST_BUILD/.libs/kt_llamafile.so
if [ ! -e "$plugin" ]; then
    echo "skipped: the backend llamafile was not built"
    exit 77
fi
cases=4
[ -z "${KT_TEST_QUICK:-}" ] || cases=2
for repack in 1 0; do
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} \
        "$KT_TEST_BUILD/tests/checkkernel/checkkernel" --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" \
        --cases $cases --set repack=$repack || exit
done
