#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the tests of a build by configure --enable-coverage have reached: coverage.sh, in its folder.
# A line for each room, and the sums of core and tools.
set -u
find . -path ./checks -prune -o \( -name '*core_la-*.gcda' -o -path './tools/*.gcda' -o -path './core/*.gcda' \) -print |
    xargs -r "${GCOV:-gcov}" -b -n 2>/dev/null |
    awk '
    /^File / { fresh = 1; file = $2; gsub(/\047/, "", file)
        if (match(file, /(core|tools)\/[^\047]*\.c$/)) file = substr(file, RSTART); else file = "" }
    function take(text, sum, all,   part, now) {
        split(text, part, "[:% ]+")
        if (part[5] + 0 > all[file] + 0) all[file] = part[5]
        now = part[3] * part[5] / 100
        if (now > sum[file]) sum[file] = now
    }
    file != "" && fresh && /^Lines executed/ { take($0, line, lines); fresh = 0 } # behind the last file stands a sum
    file != "" && /^Taken at least once/ { sub(/^Taken at least once/, "Branches taken"); take($0, branch, branches) }
    END {
        for (file in lines) {
            room = file; sub(/\/[^\/]*$/, "", room); top = file; sub(/\/.*/, "", top)
            for (k = 1; k <= 2; k++) { key = k == 1 ? room : top
                l[key] += lines[file]; ld[key] += line[file]; b[key] += branches[file]; bd[key] += branch[file] }
        }
        for (key in l) printf "%-28s %6d lines %5.1f %%  %6d branches %5.1f %%\n",
            key, l[key], 100 * ld[key] / l[key], b[key], b[key] ? 100 * bd[key] / b[key] : 100
    }' | sort
