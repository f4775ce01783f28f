#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin avx512_fp8, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated avx512_fp8
# Levels that this CPU has run by themselves, the same cases and more (avx512_fp8.sh).
run --cases 24 --skip "scalar ${same:-avx2}"
