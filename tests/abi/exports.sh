#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports the functions that <kt/kt.h> and what it includes declare and core/libktkernel.map lists, no
# others. The command carries libdir as its RUNPATH where the dynamic linker does not know it, and then
# kt-kernel.pc has other programs carry it.
set -eu
source=${KT_TEST_SOURCE:?run by make check} build=${KT_TEST_BUILD:?}
library=$build/.libs/libktkernel.so.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

headers=
for name in $(sed -n 's,^#include <kt/\(.*\)>,\1,p' "$source/include/kt/kt.h") kt.h; do
    [ ! -f "$source/include/kt/$name" ] || headers="$headers $source/include/kt/$name" # version.h is made
done

# Comments out, then every name before a parenthesis that is no typedef's.
awk '{ while (match($0, /\/\*/)) { head = substr($0, 1, RSTART - 1); rest = substr($0, RSTART + 2)
         while (!match(rest, /\*\//)) { if ((getline rest) <= 0) exit 1 }
         $0 = head " " substr(rest, RSTART + 2) } print }' $headers |
    grep -oE '(^|[^A-Za-z0-9_])kt_[a-z0-9_]+\(' | tr -cd 'a-z0-9_\n' | sort -u >"$work/header"
sed -n 's/^ *\(kt_[a-z0-9_]*\);.*/\1/p' "$source/core/libktkernel.map" | sort -u >"$work/map"
"${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/library"

[ -s "$work/header" ] || fail "found no function in the headers"
diff "$work/header" "$work/map" >"$work/diff" ||
    { fail "the headers (<) and core/libktkernel.map (>) differ"; cat "$work/diff"; }
diff "$work/map" "$work/library" >"$work/diff" ||
    { fail "core/libktkernel.map (<) and the symbols of $library (>) differ"; cat "$work/diff"; }

"${READELF:-readelf}" -dlW "$library" >"$work/elf"
grep -q 'SONAME.*\[libktkernel\.so\.0\]' "$work/elf" || fail "soname is not libktkernel.so.0"
! grep -E 'RPATH|RUNPATH|TEXTREL' "$work/elf" || fail "the library has what is shown above"
! grep -E 'GNU_STACK.* RWE' "$work/elf" || fail "the library wants an executable stack"

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
