#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin rawint4 that this CPU can run, with both forms of activations.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native rawint4
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
run --cases $((2 * cases))
run --cases $cases --set activations=1 # int8
