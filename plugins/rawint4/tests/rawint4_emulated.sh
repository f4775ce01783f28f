#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 and AMX levels of the plugin rawint4, emulated, beside its others.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated rawint4
run --cases 24
run --cases 12 --set activations=1 # int8
