#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The levels of the plugin amx_int8 above AVX2, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated amx_int8
# Levels that this CPU has run by themselves, more cases (amx_int8.sh). One of them stands here where levels must agree.
run --cases 16 --skip scalar
