#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the tests of a build by configure --enable-coverage have reached; to be called in its folder:
#     coverage.sh                      a line for each room, and the sums of core and tools
#     coverage.sh LINES BRANCHES TOOLS LUCK    also fails below these: per cent of core's lines and branches and of
#                                         tools' lines; and where more than LUCK errors are neither reached
#                                         nor listed: some hang on the CPU, its load, or luck
#     coverage.sh --uncovered          the errors that no test reaches and no list beside this file has: unreached
#                                      those of core, unreached_tools those of tools
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/kt-coverage.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
find . -path ./checks -prune -o \( -name '*core_la-*.gcda' -o -path './tools/*.gcda' -o -path './core/*.gcda' \) -print >"$work/counts"

# The lines that fail, and that nothing has reached in any object: "FILE: TEXT".
uncovered()
{
    xargs -r "${GCOV:-gcov}" -t <"$work/counts" 2>/dev/null | awk '
        /^ *-: +0:Source:/ { file = $0; sub(/.*Source:/, "", file)
            if (match(file, /(core|tools)\/[^\047]*\.[ch]$/)) file = substr(file, RSTART); else file = ""; next }
        file != "" && match($0, /^ *[^:]+: *[0-9]+:/) {
            split($0, part, ":"); gsub(/ /, "", part[1]); line = file SUBSEP part[2]
            if (part[1] == "-") next
            text[line] = substr($0, RLENGTH + 1); sub(/^ +/, "", text[line])
            if (part[1] !~ /^[#=]/) reached[line] = 1
        }
        END { for (line in text) if (!(line in reached) &&
                text[line] ~ /(fail(_[a-z]+)*|refuse[a-z_]*|usage|_error|problem_[a-z]+|abort)\(|KT_E_[A-Z]/) {
            split(line, part, SUBSEP); print part[1] ": " text[line] } }' | sort -u
}

# listed ERRORS: those of them that the lists lack, and what these name that is not in the sources.
listed()
{
    awk -v top="$top" '
        FNR == NR { if (/^[a-z]/) { known[$0] = 1
                file = $0; sub(/: .*/, "", file); text = $0; sub(/^[^:]*: /, "", text); found = 0
                while ((getline line <(top "/" file)) > 0) { sub(/^ +/, "", line); found = found || line == text }
                close(top "/" file)
                if (!found) print "a list in tests/tree has what is no line any more: " $0 }
            next }
        !($0 in known) { print "neither reached nor listed in tests/tree: " $0 }' "$work/lists" "$1"
}
cat "$top/tests/tree/unreached" "$top/tests/tree/unreached_tools" >"$work/lists"
uncovered >"$work/uncovered"
listed "$work/uncovered" >"$work/unlisted"
if [ "${1:-}" = --uncovered ]; then
    sed -n 's|^neither .*tests/tree: ||p' "$work/unlisted"
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
[ $# -eq 4 ] || exit 0
echo "errors neither reached nor listed: $(grep -c '^neither' "$work/unlisted"), at most $4 may be"
cat "$work/unlisted"
awk -v lines="$1" -v branches="$2" -v tools="$3" '
    $1 == "core" { seen++; bad += $4 < lines || $8 < branches }
    $1 == "tools" { seen++; bad += $4 < tools }
    END { if (bad || seen != 2) { print "error: core must have " lines " % of its lines and " branches \
        " % of its branches reached, tools " tools " % of its lines"; exit 1 } }' "$work/table" || exit 1
! grep -q 'no line any more' "$work/unlisted" && [ "$(grep -c '^neither' "$work/unlisted")" -le "$4" ]
