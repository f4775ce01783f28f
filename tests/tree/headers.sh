#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh - does each header compile alone, with nothing included before it?
set -u
source=${KT_TEST_SOURCE-$(cd "$(dirname "$0")/../.." && pwd)}
build=${KT_TEST_BUILD-$source/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source" || exit 1

# include/kt is what users have: strict C, and without the folders of the sources.
# compile HEADER FLAG... - as the only line of a file; its messages go to $work/messages.
compile() {
    header=$1
    shift
    echo "#include \"$header\"" >"$work/alone.c"
    # shellcheck disable=SC2086 # words
    ${KT_TEST_CC:-cc} -fsyntax-only -Wall -Wextra -Werror "$@" -I include -I "$build/include" \
        ${KT_TEST_CPPFLAGS-} "$work/alone.c" 2>"$work/messages"
}
n=0 failed=0
folders=core
if [ -f "$build/libktengine.la" ]; then
    folders="core tools/engine"
else
    echo "headers of tools/engine are left out: libktengine was not built, so PCRE2 may be missing"
fi
# shellcheck disable=SC2086 # several folders
for header in $(cd include && find kt -name '*.h') $(find $folders -name '*.h'); do
    case $header in
    kt/version.h) continue ;; # of a build in the source's folder: macros only, which is not a C file alone
    kt/*) set -- -std=c11 -pedantic ;;
    *) set -- -std=gnu11 -I . ;;
    esac
    n=$((n + 1))
    compile "$header" "$@" && continue
    echo "FAIL: $header does not compile alone:"
    head -n 5 "$work/messages"
    failed=1
done
# This test itself: a header that needs another one before it is found.
echo 'struct needs_another { uint32_t number; };' >"$work/broken.h"
if compile "$work/broken.h" -std=gnu11; then
    echo "FAIL: headers.sh takes a header that uses a type it does not include"
    failed=1
fi
echo "$n headers"
exit $failed
