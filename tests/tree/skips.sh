#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that are skipped say why, in words that tools/quickstart gathers.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
failed=0
for file in $(grep -rlE '(exit|return) 77\b' tests plugins --include='*.sh' --include='*.[ch]' --include='*.py'); do
    case $file in
    *.sh) says='SKIP: |\bskip ' ;;
    tests/kt/refuse.c) continue ;; # its callers say it
    *) says='SKIP: |gpu_answers' ;;
    esac
    grep -qE "$says" "$file" || {
        echo "$file: it skips and does not say \"SKIP: \" and why"
        failed=1
    }
done
# Other spellings are not gathered, so that the reason would be empty.
grep -rnE "(echo|puts|print|printf|printf\(|puts\(|print\() *[\"']SKIP(PED|[^:P])" tests plugins --include='*.sh' \
    --include='*.[ch]' --include='*.py' && failed=1
eval "$(grep '^reasons()' tools/quickstart)"
work=$(mktemp)
printf 'SKIP: one\nother\nskipped: two\n' >"$work"
[ "$(reasons "$work")" = "one
two" ] || { echo "tools/quickstart gathers other reasons of: SKIP: one, skipped: two"; failed=1; }
rm -f "$work"
exit $failed
