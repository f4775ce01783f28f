#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rooms.sh - do files of core/ and tools/kt/ use only rooms below their own? In core, do no files use each other in a
# circle?
#
# A folder is a room; core/core.am and tools/kt/kt.am list the rooms, the lowest first, and what is in no folder stands
# above them. NAME.c and NAME.h are one unit. A unit uses another if it includes its header or if its object needs a
# symbol that the other's object defines.
set -eu
source=${KT_TEST_SOURCE-$(cd "$(dirname "$0")/../.." && pwd)}
build=${KT_TEST_BUILD-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"

# look TOP - the rooms, files and arrows of this folder.
look() {
    top=$1
    sed -n "s|^include \($top/.*\)/[^/]*\.am\$|\1|p" "$top/${top##*/}.am" >"$work/rooms"
    echo "$top" >>"$work/rooms"
    find "$top" -name '*.[ch]' | sort >"$work/files"

    # Each file stands in the list of its room.
    while read -r room; do
        tr -s ' \t\\' '\n' <"$room/${room##*/}.am" | sed "s|^|$room |"
    done <"$work/rooms" >"$work/listed"
    awk 'FILENAME == ARGV[1] { listed[$0]; next }
        { room = $1; sub("/[^/]*$", "", room) }
        !((room " " $1) in listed) { print $1 ": no room of that name, or its .am does not list it" }' \
        "$work/listed" "$work/files" >>"$work/strays"

    # Arrows: FROM TO REASON, each of one word.
    xargs awk -F'"' '/^#include "/ { from = FILENAME; to = $2; sub(/\.[ch]$/, "", from); sub(/\.h$/, "", to)
        print from, to, FILENAME ":" $2 }' <"$work/files" >"$work/arrows"

    # libtool may have made two objects of a file, and programs their own; a folder that is built again may hold those
    # of files that are gone.
    find "$build/$top" -name '*.o' | xargs "${NM:-nm}" -A -P -g | awk -v start="$build/" -v files="$work/files" '
        BEGIN { while ((getline file <files) > 0) known[file] }
        {
            unit = substr($1, length(start) + 1)
            sub("/[.]libs/", "/", unit)
            sub(/\.o:$/, "", unit)
            name = unit
            sub(".*[/]", "", name)
            sub(/.*-/, "", name)
            sub("[^/]*$", name, unit)
        }
        (unit ".c") in known { $1 = unit; print }' >"$work/symbols"
    awk '$3 ~ /^[Uwv]$/ { needs[$1 " " $2]; next } NF < 3 { next }
        { owner[$2] = $1 }
        END { for (pair in needs) { split(pair, word); if (word[2] in owner && owner[word[2]] != word[1])
            print word[1], owner[word[2]], word[2] "()" } }' "$work/symbols" >"$work/calls"
    if ! [ -s "$work/calls" ]; then
        echo "FAIL: no object under $build/$top calls another: is it built?"
        exit 1
    fi
    cat "$work/calls" >>"$work/arrows"
    judge "$work/arrows" >>"$work/wrong"
    n_files=$(wc -l <"$work/files")
    echo "$top: $(wc -l <"$work/rooms") rooms, $n_files files" >>"$work/seen"
}

# judge ARROWS - prints each arrow that goes up or leaves core, and circles of units.
judge() {
    sort "$1" | awk -v rooms="$work/rooms" -v top="$top" '
    function room_of(unit) { sub("/[^/]*$", "", unit); return unit }
    # Depth first; where a unit comes twice on the path, those from the first time on are a circle.
    function visit(unit, depth,    i, list, n) {
        path[depth] = unit
        state[unit] = 1
        n = split(uses[unit], list, " ")
        for (i = 1; i <= n; i++) {
            if (state[list[i]] == 1)
                show(list[i], depth)
            else if (!state[list[i]])
                visit(list[i], depth + 1)
        }
        state[unit] = 2
    }
    function show(first, depth,    i) {
        print "a circle:"
        for (i = depth; path[i] != first; i--)
            continue
        for (; i < depth; i++)
            print "    " path[i] " uses " path[i + 1] " (" why[path[i] " " path[i + 1]] ")"
        print "    " path[depth] " uses " first " (" why[path[depth] " " first] ")"
    }
    BEGIN {
        while ((getline room <rooms) > 0) floor[room] = ++n_rooms
        # What the command takes from elsewhere: a file that needs nothing of core, a header; and tools/check.
        shared["tools/kt/base/cli core/base/suggest"]
        shared["tools/kt/bench/limits plugins/common/simd/sve_length"]
    }
    $1 == $2 || ($1 " " $2) in why { next }
    {
        why[$1 " " $2] = $3
        uses[$1] = uses[$1] " " $2
        from = room_of($1)
        to = room_of($2)
        if (($1 " " $2) in shared || (top == "tools/kt" && to == "tools/check"))
            next
        if (!(to in floor))
            print $1 " leaves " top ": it uses " $2 " (" $3 ")"
        else if (floor[to] > floor[from])
            print from " is below " to ": " $1 " uses " $2 " (" $3 ")"
        units[$1]
    }
    END { for (unit in units) if (top == "core" && !state[unit]) visit(unit, 1) }'
}
: >"$work/strays"
: >"$work/wrong"
look tools/kt
look core

# This test itself: what it must find.
low=$(sed -n 1p "$work/rooms") high=$(sed -n 2p "$work/rooms")
echo "$low/x $high/y up()" >"$work/up"
printf '%s\n' "$low/x $low/y one()" "$low/y $low/z two()" "$low/z $low/x three()" >"$work/circle"
judge "$work/up" | grep -q "is below $high.*up()" || echo "rooms.sh misses an arrow upwards" >>"$work/wrong"
judge "$work/circle" | grep -q "three()" || echo "rooms.sh misses a circle" >>"$work/wrong"

cat "$work/strays" "$work/wrong"
if [ -s "$work/strays" ] || [ -s "$work/wrong" ]; then
    echo "FAIL: see core/README and tools/kt/kt.am; what two files need goes to a file below both"
    exit 1
fi
cat "$work/seen"
echo "all arrows run downwards"
