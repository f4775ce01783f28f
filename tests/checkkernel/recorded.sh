#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recorded results are known to a run of the same seed, and to no other; where bits differ, all is computed.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"

# cases N KNOWN ARGUMENT...: so many are right, so many of them known.
cases()
{
    wanted="$1 cases, 0 wrong, $2 known,"
    shift 2
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
        --plugin reference --type q4_0 --cases 8 "$@" >"$dir/out" 2>&1 || fail "$* ends with $?"
    grep -q " $wanted " "$dir/out" || fail "$*: $(cat "$dir/out"), not $wanted"
}

cases 10 0 --seed 1 --record "$dir/results"
cases 10 10 --seed 1 --known "$dir/results"
cases 10 10 --seed 1 --known "$dir/results" --same-code
cases 10 0 --seed 2 --known "$dir/results"
cases 10 0 --seed 1 --known "$dir/none"

# The last line's y, a linear's; and the first line's h.
sed -e '$s/[0-9a-e]$/f/;t' -e '$s/f$/0/' "$dir/results" >"$dir/y"
cases 10 9 --seed 1 --known "$dir/y"
cases 10 9 --seed 1 --known "$dir/y" --same-code
sed '2s, [0-9a-f]\{16\} , 0000000000000000 ,' "$dir/results" >"$dir/h"
cases 10 9 --seed 1 --known "$dir/h"
# A line that is cut off.
sed '3s/..$//; 4s/ [0-9a-f]*$//' "$dir/results" >"$dir/cut"
cases 10 8 --seed 1 --known "$dir/cut"
finish
