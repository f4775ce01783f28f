#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin amx_int8 that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native amx_int8
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
run --cases $cases
run --cases 4 --set y=1 # bf16
