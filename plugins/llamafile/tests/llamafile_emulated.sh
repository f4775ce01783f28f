#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 levels of the plugin llamafile, emulated, beside its others: the same bits from all.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated llamafile
# The scalar level, and those that this CPU has, run by themselves, the same cases, beside avx2 (llamafile.sh).
# roomy and compact, of the same bits; in place
run --cases 4 --skip "scalar $same" --set repack=1 --also repack=2
run --cases 4 --skip "scalar $same" --set repack=3
