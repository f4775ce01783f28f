#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin rawint4, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated rawint4
# Levels that this CPU has run by themselves, more cases (rawint4.sh). One of them stands here where levels must agree.
run --cases 24 --skip "scalar ${same:-avx2}"
run --cases 12 --skip "scalar $same" --set activations=1 # int8
