#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin llamafile that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native llamafile
cases=4
[ -z "${KT_TEST_QUICK:-}" ] || cases=2
# roomy and compact, of the same bits; in place
run --cases $cases --set repack=1 --also repack=2
run --cases $cases --set repack=3
