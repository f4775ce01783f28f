#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin amx_int4 that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native amx_int4
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
for group in 0 1 2; do # of 32, 64 and 128 weights
    run --cases $cases --set group_size=$group
done
run --cases 4 --set y=1 # bf16
