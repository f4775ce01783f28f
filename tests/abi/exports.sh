#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each library exports the functions that its public headers declare and its map lists, no others: libktkernel those
# of <kt/kt.h> and what that includes, libktengine those of the headers that tools/engine installs. The command
# carries libdir as its RUNPATH where the dynamic linker does not know it, and then kt-kernel.pc has other programs
# carry it.
set -eu
source=${KT_TEST_SOURCE:?run by make check} build=${KT_TEST_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# agree NAME MAP HEADER... - the headers, the map and the symbols of libNAME; it is as hardened as it should be.
agree()
{
    name=$1 map=$2 library=$build/.libs/lib$1.so.0
    shift 2
    # Comments and functions of the headers themselves out, then every name before a parenthesis that is no typedef's.
    awk '{ while (match($0, /\/\*/)) { head = substr($0, 1, RSTART - 1); rest = substr($0, RSTART + 2)
             while (!match(rest, /\*\//)) { if ((getline rest) <= 0) exit 1 }
             $0 = head " " substr(rest, RSTART + 2) } print }' "$@" | grep -v '^static inline ' |
        grep -oE '(^|[^A-Za-z0-9_])kt_[a-z0-9_]+\(' | tr -cd 'a-z0-9_\n' | sort -u >"$work/header"
    sed -n 's/^ *\(kt_[a-z0-9_]*\);.*/\1/p' "$source/$map" | sort -u >"$work/map"
    "${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/library"

    [ -s "$work/header" ] || fail "found no function in the headers of $name"
    diff "$work/header" "$work/map" >"$work/diff" ||
        { fail "the headers (<) and $map (>) differ"; cat "$work/diff"; }
    diff "$work/map" "$work/library" >"$work/diff" ||
        { fail "$map (<) and the symbols of $library (>) differ"; cat "$work/diff"; }

    "${READELF:-readelf}" -dlW "$library" >"$work/elf"
    grep -q "SONAME.*\[lib$name\.so\.0\]" "$work/elf" || fail "soname is not lib$name.so.0"
    # libtool's, until it is installed: the folder of the library that this one needs, and libdir.
    ! grep -E 'RPATH|RUNPATH|TEXTREL' "$work/elf" | grep -vF "Library runpath: [$build/.libs" ||
        fail "$library has what is shown above"
    ! grep -E 'GNU_STACK.* RWE' "$work/elf" || fail "$library wants an executable stack"
}

headers=
for name in $(sed -n 's,^#include <kt/\(.*\)>,\1,p' "$source/include/kt/kt.h") kt.h; do
    [ ! -f "$source/include/kt/$name" ] || headers="$headers $source/include/kt/$name" # version.h is made
done
# shellcheck disable=SC2086 # names without blanks
agree ktkernel core/libktkernel.map $headers
! grep -q RUNPATH "$work/elf" || fail "libktkernel needs no library of ours, so it needs no RUNPATH"
if [ -f "$build/.libs/libktengine.so.0" ]; then
    # shellcheck disable=SC2046
    agree ktengine tools/engine/libktengine.map \
        $(sed -n "s,^ktinclude_HEADERS += \(.*\),\1,p" "$source/tools/engine/engine.am" | tr ' ' '\n' | sed "s,^,$source/,")
    # Its own namespace in the dynamic linker, too.
    sed -n 's/^\(KT[A-Z]*_0\) {$/\1/p' "$source/core/libktkernel.map" "$source/tools/engine/libktengine.map" |
        sort | uniq -d | grep . && fail "two libraries have the symbol version above"
else
    echo "libktengine is not looked at: it was not built"
fi

eval "$(grep -E '^[a-z_]+=' "$build/kt-kernel.pc" | grep -E '^(exec_)?prefix=|^libdir=')"
runpath=$("${READELF:-readelf}" -dW "$build/.libs/kt" | sed -n 's/.*R[UN]*PATH.*\[\(.*\)\]/\1/p')
handed=$(sed -n 's/^Libs:.* -Wl,-rpath,//p' "$build/kt-kernel.pc")
eval "handed=$handed"
[ "$runpath" = "$handed" ] || fail "kt has the RUNPATH '$runpath', kt-kernel.pc hands on '$handed'"
known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -N -v 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p')
case " $("$build/config.status" --config) " in
*"--disable-rpath"*) wanted= ;;
*) [ -n "$known" ] && wanted=$libdir || wanted=$runpath ;;
esac
for folder in $known; do
    [ "$folder" != "$libdir" ] || wanted=
done
[ "$runpath" = "$wanted" ] || fail "kt has the RUNPATH '$runpath' instead of '$wanted', libdir is $libdir"

major=$(sed -n 's/^#define KT_PLUGIN_ABI_MAJOR \([0-9]*\)$/\1/p' "$source/include/kt/plugin.h")
named=$(sed -n 's/^KT_PLUGIN_ABI=//p' "$build/kt-kernel.pc")
[ "$major" = "$named" ] || fail "plugin.h says ABI $major, configure.ac says $named"
exit $failed
