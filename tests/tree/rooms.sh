#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rooms.sh - do files of core/ use only rooms below their own, and do no files use each other in a circle?
#
# A folder is a room; core/core.am lists the rooms, the lowest first. NAME.c and NAME.h are one unit. A unit
# uses another if it includes its header or if its object needs a symbol that the other's object defines.
set -eu
source=${KT_TEST_SOURCE-$(cd "$(dirname "$0")/../.." && pwd)}
build=${KT_TEST_BUILD-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"

sed -n 's|^include \(core/.*\)/[^/]*\.am$|\1|p' core/core.am >"$work/rooms"
find core -name '*.[ch]' | sort >"$work/files"

# Each file stands in the list of its room.
while read -r file; do
    room=${file%/*}
    if ! grep -qxF "$room" "$work/rooms"; then
        echo "$file: core/core.am has no room $room"
    elif ! grep -qE "(^|[[:space:]])$file([[:space:]]|\$)" "$room/${room##*/}.am"; then
        echo "$file: $room/${room##*/}.am does not list it"
    fi
done <"$work/files" >"$work/strays"

# Arrows: FROM TO REASON, each of one word.
while read -r file; do
    sed -n 's|^#include "\([^"]*\)".*|\1|p' "$file" | while read -r header; do
        echo "${file%.[ch]} ${header%.h} $file:$header"
    done
done <"$work/files" >"$work/arrows"

# libtool may have made two objects of a file; a folder that is built again may hold those of files that are
# gone.
find "$build/core" -name '*.o' | while read -r object; do
    unit=$(echo "${object#"$build/"}" | sed 's|/\.libs/|/|; s|/libktcore_la-\([^/]*\)$|/\1|; s|\.o$||')
    if [ -f "$unit.c" ]; then
        "${NM:-nm}" -P -g "$object" | sed "s|^|$unit |"
    fi
done >"$work/symbols"
awk '$3 ~ /^[Uwv]$/ { needs[$1 " " $2]; next } NF < 3 { next }
    { owner[$2] = $1 }
    END { for (pair in needs) { split(pair, word); if (word[2] in owner && owner[word[2]] != word[1])
        print word[1], owner[word[2]], word[2] "()" } }' "$work/symbols" >"$work/calls"
if ! [ -s "$work/calls" ]; then
    echo "FAIL: no object under $build/core calls another: is it built?"
    exit 1
fi
cat "$work/calls" >>"$work/arrows"

# judge ARROWS - prints each arrow that goes up or leaves core, and circles of units.
judge() {
    sort "$1" | awk -v rooms="$work/rooms" '
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
    BEGIN { while ((getline room <rooms) > 0) floor[room] = ++n_rooms }
    $1 == $2 || ($1 " " $2) in why { next }
    {
        why[$1 " " $2] = $3
        uses[$1] = uses[$1] " " $2
        from = room_of($1)
        to = room_of($2)
        if (!(to in floor))
            print $1 " leaves core: it uses " $2 " (" $3 ")"
        else if (floor[to] > floor[from])
            print from " is below " to ": " $1 " uses " $2 " (" $3 ")"
        units[$1]
    }
    END { for (unit in units) if (!state[unit]) visit(unit, 1) }'
}
judge "$work/arrows" >"$work/wrong"

# This test itself: what it must find.
low=$(sed -n 1p "$work/rooms") high=$(sed -n '$p' "$work/rooms")
echo "$low/x $high/y up()" >"$work/up"
printf '%s\n' "$low/x $low/y one()" "$low/y $low/z two()" "$low/z $low/x three()" >"$work/circle"
judge "$work/up" | grep -q "is below $high.*up()" || echo "rooms.sh misses an arrow upwards" >>"$work/wrong"
judge "$work/circle" | grep -q "three()" || echo "rooms.sh misses a circle" >>"$work/wrong"

cat "$work/strays" "$work/wrong"
if [ -s "$work/strays" ] || [ -s "$work/wrong" ]; then
    echo "FAIL: see core/README; what two files need goes to a file below both"
    exit 1
fi
echo "$(wc -l <"$work/rooms") rooms, $(wc -l <"$work/files") files: all arrows run downwards"
