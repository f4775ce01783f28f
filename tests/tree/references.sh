#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files and folders that documents and comments name are there.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
folders="core plugins tools tests include etc m4"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2086
find $folders configure.ac Makefile.am README.md HACKING -name __pycache__ -prune -o -type f -print >"$work/files"
# Programs of tests have no file of their name; the build names them.
find . -name build -prune -o -name '*.am' -exec cat {} + | tr -c 'A-Za-z0-9_./\n-' '\n' | sort -u >"$work/built"
# The sources of other projects, of templates and of releases speak of files elsewhere.
grep -v -e '^tests/data/' -e '^tests/abi/1.0/' -e '^tests/abi/baseline' -e '^tools/template/' -e '\.am$' \
    -e 'debian/' "$work/files" >"$work/texts"

cat >"$work/check.awk" <<'END_OF_AWK'
# A path is known by each of its ends: core/base/log.c, base/log.c, log.c; so are its folders.
FILENAME == files {
    n = split($0, part, "/")
    for (first = 1; first <= n; first++) {
        path = ""
        for (i = first; i <= n; i++) {
            path = path (i > first ? "/" : "") part[i]
            known[path] = 1
        }
    }
    next
}
FILENAME == built { known[$0] = 1; next }
{
    document = FILENAME ~ /(README(\.md)?|HACKING)$/
    line = $0
    while (match(line, /[A-Za-z0-9_.\/<>$*@{}~-]+/)) {
        word = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/[.\/]+$/, "", word)
        if (word ~ /[<>$*@{}~]|NAME|LEVEL|FOLDER|ROOM|X_|^[.\/-]|\.so/ || word ~ /^(embed\.c|layer0\.py)$/)
            continue
        inside = word ~ /^(core|plugins|tools|tests|include|etc|m4)\/./
        file = word ~ /\.(c|h|sh|py|am|awk|m4|map|csv|spec|svg)$/
        if (document ? !inside && !file : !inside || !file)
            continue
        if (!(word in known) && !(word ".c" in known) && !(word ".in" in known)) {
            print FILENAME ":" FNR ": there is no " word
            missing++
        }
    }
}
END { exit missing > 0 }
END_OF_AWK
# shellcheck disable=SC2046
awk -v files="$work/files" -v built="$work/built" -f "$work/check.awk" "$work/files" "$work/built" $(cat "$work/texts")
