#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend that every other one is compared with in use.
. "${KT_TEST_SOURCE:?}/tests/checkkernel/lib.sh"
plugin=reference
emulated=
run
