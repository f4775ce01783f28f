#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin kml_arm that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native kml_arm
cases=24
[ -z "${KT_TEST_QUICK:-}" ] || cases=8
library=$KT_TEST_BUILD/plugins/kml_arm/tests/kml_good.so
run --cases $cases --set library="$library"
run --cases 4 --set library="$library",y=1 # bf16
for group in 0 1 2; do # of 32, 64 and 128 weights of 4 bits
    run --cases $((cases / 2)) --set weights=1,group_size=$group,library="$library"
done
