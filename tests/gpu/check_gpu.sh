#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests on a GPU, one after the other, and says what a pair of calls costs there:
#     check_gpu.sh PROGRAM...
# from the build folder. What a program prints goes to PROGRAM.log. The first one says whether a device answers.
set -u
: "${KT_TEST_BUILD:?is set by make check-gpu}"
KT_TEST_REPLAYS=${KT_TEST_REPLAYS-100000}
export KT_TEST_REPLAYS
cd "$KT_TEST_BUILD" || exit 99
failed=0
for program; do
    "./$program" >"$program.log" 2>&1
    code=$?
    case $code in
    0) echo "PASS: $program: $(tail -n 1 "$program.log")" ;;
    77)
        sed -n "s,^SKIP:,SKIP: $program:,p" "$program.log"
        exit 0
        ;;
    *)
        echo "FAIL: $program"
        cat "$program.log"
        failed=1
        ;;
    esac
done
[ $failed -eq 0 ] && ./kt bench --stream || failed=1
exit $failed
