#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin blis_int8 that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native blis_int8
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
# AMD's library in place of its stub: aocl.sh
library=$KT_TEST_BUILD/plugins/blis_int8/tests/aocl_good.so
run --cases $cases --set library="$library"
run --cases 4 --set library="$library",y=1 # bf16
