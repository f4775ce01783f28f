#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every level of the plugin bf16 that this CPU can run.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
native bf16
run
run --cases 2 --set y=1 # bf16
