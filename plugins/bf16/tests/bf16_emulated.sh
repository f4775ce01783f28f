#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin bf16, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated bf16
# Levels that this CPU has run by themselves, the same cases (bf16.sh).
run --skip "scalar ${same:-avx2}"
