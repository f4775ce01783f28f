#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 levels of the plugin llamafile, emulated, beside its others: the same bits from all.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
emulated llamafile
for repack in 1 0; do
    run --cases 4 --set repack=$repack
done
