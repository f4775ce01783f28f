#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each plugin that is installed exports its one symbol and depends on nothing that it does not name.
set -eu
build=${KT_TEST_BUILD:?run by make check}
failed=0
fail() { echo "FAIL: $*"; failed=1; }

[ -n "${KT_TEST_PLUGINS:-}" ] || { echo "SKIP: configured without any plugin"; exit 77; }
for module in $KT_TEST_PLUGINS; do
    name=${module##*/} name=${name%.la} folder=$build/
    case $module in */*) folder=$build/${module%/*}/ ;; esac
    file=$folder.libs/$name.so
    [ -f "$file" ] || { fail "$file is missing"; continue; }
    exports=$("${NM:-nm}" -D --defined-only "$file" | awk '{ print $2, $3 }')
    case $exports in
    [RD]" kt_plugin_${name#kt_}") ;;
    *) fail "$name: exports '$exports' instead of the data symbol kt_plugin_${name#kt_} alone" ;;
    esac
    ! "${NM:-nm}" -D --undefined-only "$file" | grep -E ' kt_' || fail "$name: undefined as shown above"
    ! "${READELF:-readelf}" -dW "$file" | grep -E 'RPATH|RUNPATH|TEXTREL|libktkernel' ||
        fail "$name: has what is shown above"
    ! "${READELF:-readelf}" -lW "$file" | grep -E 'GNU_STACK.* RWE' || fail "$name: executable stack"
done
exit $failed
