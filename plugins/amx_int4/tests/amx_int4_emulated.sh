#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The levels of the plugin amx_int4 above AVX2, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated amx_int4
# Levels that this CPU has run by themselves, more cases (amx_int4.sh). One of them stands here where levels must agree.
for group in 0 1 2; do # of 32, 64 and 128 weights
    run --cases 8 --skip scalar --set group_size=$group
done
