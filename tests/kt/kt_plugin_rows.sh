#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt plugin check of a plugin for rows: each fault gets its verdict, the right plugin passes.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
plugin=$KT_TEST_BUILD/tests/plugins/kt_wrong_rows.so
[ -f "$plugin" ] || skip "the test plugins were not built: libcheck is missing"
if grep -q __asan_init "$plugin"; then
    skip "the address sanitizer takes the faults that are to be found here"
fi

finds_faults "$plugin" <<'FAULTS'
NORM_RESIDUAL    rows-numbers    norm, .*its residual is .*float64 gives
NORM_L2          rows-numbers    norm 1 .*float64 gives
NORM_OFFSET      rows-numbers    norm .*float64 gives
NORM_BEYOND      rows-numbers    behind the end of output\|beyond its\|between the numbers of its
NORM_INPUT       rows-numbers    it wrote to input, which can only be read
ALLOCATES        rows-numbers    norm asks the host for memory
GATE_ONE         rows-numbers    gate
GATE_ADDS        rows-numbers    gate, .*accumulate, .*float64 gives
ROTATE_ROW       rows-numbers    rotate, .*float64 gives
ROTATE_PAIRS     rows-numbers    rotate, .*pairing 1, .*float64 gives
MULTIPLY_COLUMN  rows-numbers    multiply, .*float64 gives
MULTIPLY_ROUNDS  rows-numbers    multiply, .*float64 gives
ROUTE_CORRECTION rows-numbers    route, .*correction, .*float64 chooses
ROUTE_GROUPS     rows-numbers    route, .*float64 chooses
ROUTE_SUM        rows-numbers    route, .*float64 gives
CONVOLVE_STATE   rows-numbers    convolve
CONVOLVE_PLAIN   rows-numbers    convolve, .*float64 gives
DECAY_LARGE      rows-numbers    decay, .*float64 gives
DELTA_ORDER      rows-numbers    delta, .*float64 gives
DELTA_RECALL     rows-numbers    delta, .*float64 gives
NORM_GAP         rows-numbers    it wrote between the numbers of its
ROTATE_REST      rows-numbers    it changed number 64 of a head of which it rotates 64
DELTA_MUCH       rows-numbers    delta_scratch is 1099511627776 for heads of 16 x 16
DELTA_LEAK       rows-numbers    blocks of the host.s memory were not given back
DELTA_SCRATCH    rows-numbers    behind the end of scratch\|beyond its scratch
PLACE            rows-isolation  norm, .*where each row is a call of its own
CUTS             rows-isolation  multiply, .*are divided
DELTA_HEADS      rows-isolation  delta, .*are divided
NAN_LEAKS        rows-isolation  multiply, .*a NaN in row
NAN_HIDDEN       rows-isolation  norm, .*it is hidden
THREADS          rows-threads    other bits than one thread alone
FAULTS

# Without a fault nothing is found.
KT_TEST_FAULT=
kt plugin check --quick --cases 1 "$plugin"
exits 0
is_silent
says '^rows-numbers  *scalar  *ok  *8 functions, 96 cases$'
says '^rows-threads  *scalar  *ok '
finish
