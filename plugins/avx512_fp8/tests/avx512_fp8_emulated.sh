#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin avx512_fp8, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated avx512_fp8
run --cases 24
