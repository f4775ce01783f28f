#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the tests of a build by configure --enable-coverage have reached; to be called in its folder:
#     coverage.sh                      a line for each room, and the sums of core and tools
#     coverage.sh LINES BRANCHES TOOLS    also fails below these: per cent of core's lines and branches and of
#                                         tools' lines
#     coverage.sh --uncovered          the errors of core that no test reaches
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/kt-coverage.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
find . -path ./checks -prune -o \( -name '*core_la-*.gcda' -o -path './tools/*.gcda' -o -path './core/*.gcda' \) -print >"$work/counts"

# The lines of core that fail, and that nothing has reached in any object: FILE:TEXT.
uncovered()
{
    grep -v '^\./tools/' "$work/counts" | xargs -r "${GCOV:-gcov}" -t 2>/dev/null | awk '
        /^ *-: +0:Source:/ { file = $0; sub(/.*Source:/, "", file)
            if (match(file, /core\/[^\047]*\.[ch]$/)) file = substr(file, RSTART); else file = ""; next }
        file != "" && match($0, /^ *[^:]+: *[0-9]+:/) {
            split($0, part, ":"); gsub(/ /, "", part[1]); line = file SUBSEP part[2]
            if (part[1] == "-") next
            text[line] = substr($0, RLENGTH + 1); sub(/^ +/, "", text[line])
            if (part[1] !~ /^[#=]/) reached[line] = 1
        }
        END { for (line in text) if (!(line in reached) && text[line] ~ /fail[a-z_]*\(|KT_E_|abort\(/) {
            split(line, part, SUBSEP); print part[1] ":" text[line] } }' | sort -u
}
if [ "${1:-}" = --uncovered ]; then
    uncovered
    exit 0
fi

xargs -r "${GCOV:-gcov}" -b -n <"$work/counts" 2>/dev/null |
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
    }' | sort >"$work/table"
cat "$work/table"
[ $# -eq 3 ] || exit 0
awk -v lines="$1" -v branches="$2" -v tools="$3" '
    $1 == "core" { seen++; bad += $4 < lines || $8 < branches }
    $1 == "tools" { seen++; bad += $4 < tools }
    END { if (bad || seen != 2) { print "error: core must have " lines " % of its lines and " branches \
        " % of its branches reached, tools " tools " % of its lines"; exit 1 } }' "$work/table"
