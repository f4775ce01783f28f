#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# engine.sh - do files of tools/engine use only public headers, and rooms below their own?
#
# A folder is a room; the order is that of tools/engine/README: base, text and its parts as text.am includes them,
# then those of the list below. Of other folders, the rooms of verbs, from prompt on, may use what judge() lists: the
# command's own options, tables, measurements and names of models; and no room anything else.
set -eu
source=${KT_TEST_SOURCE-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
top=tools/engine

{
    printf '%s\n' $top/base $top/text
    sed -n "s|^include \($top/text/[^/]*\)/[^/]*\.am\$|\1|p" $top/text/text.am
    for room in \
        grammar \
        sampling \
        model/config \
        model/block \
        model \
        speculate \
        scheduler \
        prompt \
        command \
        pull \
        serve \
        chat \
        launch; do
        echo "$top/$room"
    done
} >"$work/rooms"
(cd include && find kt -name '*.h' && echo kt/version.h) | sort -u >"$work/public"
find $top -name '*.[ch]' | sort >"$work/files"
[ "$(wc -l <"$work/files")" -gt 20 ] && [ "$(wc -l <"$work/rooms")" -ge 6 ] ||
    { echo "FAIL: $top has too few files or rooms: were they moved?"; exit 1; }
find $top -name '*.am' -exec cat {} + | tr -s ' \t\\' '\n' | sort -u >"$work/built"
while read -r file; do
    grep -qxF "$file" "$work/built" || echo "$file: no .am of $top lists it"
done <"$work/files" >"$work/wrong"

# Threads are started by base/thread.h, which leaves the signals of faults unblocked; and nobody waits by a clock that
# may be set.
calls='pthread_create|sigfillset|CLOCK_REALTIME|gettimeofday|pthread_[a-z]*_timed[a-z]*|sem_timedwait'
xargs grep -nEo "\<($calls)\>" <"$work/files" | grep -v "^$top/base/thread\.[ch]:" |
    sed 's/$/: threads are of base\/thread.h, and waits of CLOCK_MONOTONIC/' >>"$work/wrong" || true

# judge - reads FILE HEADER, the header with its quotes, and says what is wrong.
judge() {
    awk -v rooms="$work/rooms" -v public="$work/public" -v top=$top/ '
    function room_of(path) { sub("/[^/]*$", "", path); return path }
    BEGIN {
        n = split("base/cli base/table bench/bench bench/options model/names model/options model/registry", part, " ")
        for (i = 1; i <= n; i++) shared["tools/kt/" part[i] ".h"]
        while ((getline line <rooms) > 0) floor[line] = ++n_rooms
        while ((getline line <public) > 0) known[line]
    }
    {
        header = substr($2, 2, length($2) - 2)
        from = room_of($1)
        if (!(from in floor))
            print $1 ": its folder is no room"
        else if ($2 ~ /^<kt\// ? !(header in known) : $2 ~ /^<(core|plugins|tools|tests)\//)
            print $1 ": " $2 " is no public header"
        else if ($2 ~ /^</)
            next
        else if (floor[from] >= floor[top "prompt"] && header in shared)
            next
        else if (index(header, top) != 1)
            print $1 ": " $2 " is of another folder"
        else if (!(room_of(header) in floor) || floor[room_of(header)] > floor[from])
            print $1 ": " $2 " is of a room above it"
    }'
}
while read -r file; do
    sed -n 's|^# *include *\([<"][^>"]*[>"]\).*|\1|p' "$file" | sed "s|^|$file |"
done <"$work/files" | judge >>"$work/wrong"

# This test itself: what it must find.
while read -r line; do
    [ -n "$(echo "$line" | judge)" ] || echo "engine.sh misses: $line" >>"$work/wrong"
done <<END
$top/base/x.c "core/base/log.h"
$top/base/x.c <kt/nothing.h>
$top/base/x.c "$top/text/utf8.h"
$top/text/tokenizer/x.c "$top/command/command.h"
$top/text/x.c "tools/kt/base/cli.h"
$top/command/x.c "tools/kt/forward/trace.h"
$top/serve/x.c "tools/kt/forward/trace.h"
$top/serve/x.c "core/base/log.h"
$top/serve/x.c "$top/chat/talk.h"
$top/pull/x.c "$top/serve/http.h"
$top/scheduler/x.c "$top/serve/http.h"
$top/scheduler/x.c "tools/kt/base/cli.h"
$top/command/x.c "plugins/common/simd/sve.h"
$top/text/tokenizer/x.c "x.h"
$top/nowhere/x.c <stdio.h>
END
[ -z "$(printf '%s\n' "$top/command/x.c \"tools/kt/base/table.h\"" "$top/text/x.c <kt/text.h>" "$top/base/x.c <stdio.h>" |
    judge)" ] || echo "engine.sh refuses what is right" >>"$work/wrong"

if [ -s "$work/wrong" ]; then
    cat "$work/wrong"
    echo "FAIL: see $top/README"
    exit 1
fi
echo "$(wc -l <"$work/rooms") rooms, $(wc -l <"$work/files") files: public headers, and rooms below"
