#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The levels of the plugin blis_int8 above AVX2, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated blis_int8
# Levels that this CPU has run by themselves, more cases (blis_int8.sh). One of them stands here where levels must agree.
run --cases 16 --skip scalar --set library="$KT_TEST_BUILD/plugins/blis_int8/tests/aocl_good.so"
