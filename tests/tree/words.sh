#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# words.sh - spellings and phrases that this tree does not use, each with its replacement. Only those are listed of
# which every use would be wrong; `allowed` has exceptions, as FILE WORD.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Extended regular expressions in lower case, matched as whole words in any case: replacement.
cat >"$work/words" <<'END'
[a-z]*(quant|initial|normal|vector|optim|synchron|recogn|serial|general)is[aei][a-z]*: -ize, -ization
(un)?licen(ce|ced|cing): license
behaviours?: behavior
[a-z]*(neighb|flav|col)our(s|ed|ing)?: neighbor, flavor, color
foret(ell|old)[a-z]*: predict
(is|are|was|were) no (JSON|UTF-8|GGUF|text|whole|finite|regular|shared): is not JSON, is not a whole
(is|are|was|were) no (tokens?|numbers?|multiples?|arrays?|objects?|ids?|lists?|files?|folders?|commands?): is not a
(is|are|was|were) no (dtypes?|plugins?|expressions?|integers?|options?|pairs|traces?): is not a
wished (backend|level): preferred, requested
(go|goes|going|went) on (with|from): continue with
anew: again
for ever: forever
stands? twice: is a duplicate
in vain: for nothing; better: say what fails
for want of: without
for longest: least recently used
one behind the other: contiguous, in a row
END
allowed=

find .ci core etc findings include m4/kt-*.m4 plugins tests tools Makefile.am configure.ac HACKING README.md SECURITY \
    \( -path tests/data -o -path tests/abi -o -path tests/tree/words.sh -o -name __pycache__ -o -name '*.svg' \) -prune -o \
    -type f -print >"$work/files"
while IFS= read -r line; do
    word=${line%%: *}
    # shellcheck disable=SC2046
    grep -HInwiE -e "$word" $(cat "$work/files") >"$work/found"
    for exception in $allowed; do
        grep -v "^$exception:" "$work/found" >"$work/rest"
        mv "$work/rest" "$work/found"
    done
    # "There is no file" is right.
    grep -viE -e "(there|where) $word" "$work/found" >"$work/rest"
    mv "$work/rest" "$work/found"
    [ -s "$work/found" ] || continue
    echo "use instead: ${line#*: }"
    sed 's/^/    /' "$work/found"
    failed=1
done <"$work/words"
exit $failed
