#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does kt tune find what trying everything finds? As lines of CSV, on an idle machine, in a build tree:
#     tests/bench/exhaustive.sh --backend bf16 --tokens 8 [options of kt tune]
# EXHAUSTIVE_VALUES=6 makes it shorter where a backend has several tunables: exhaustive.c.
# The program is kt with another search (exhaustive.c); it keeps nothing.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make -s kt
cc -O2 -std=gnu11 -I"$source/../.." -I"$source/../../include" -Iinclude -I. -c -o "$work/exhaustive.o" \
    "$source/exhaustive.c"
wrapped="-Wl,--wrap=tune_search $work/exhaustive.o -o $work/kt"
link=$(make -n V=1 -W tools/kt/kt-main.o kt | sed -n "s|^\(.*mode=link.*\) -o kt |\1 $wrapped |p")
sh -c "$link" >/dev/null
"$work/kt" tune --minutes 60 "$@"
