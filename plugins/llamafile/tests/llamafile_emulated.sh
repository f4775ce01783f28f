#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 levels of the plugin llamafile, emulated, beside its others: the same bits from all.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated llamafile
# roomy and compact, of the same bits; in place
run --cases 4 --set repack=1 --also repack=2
run --cases 4 --set repack=3
