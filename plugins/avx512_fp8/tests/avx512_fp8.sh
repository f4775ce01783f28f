#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin avx512_fp8 that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native avx512_fp8
cases=48
[ -z "${KT_TEST_QUICK:-}" ] || cases=16
run --cases $cases
run --cases $((cases / 4)) --no-subnormal
