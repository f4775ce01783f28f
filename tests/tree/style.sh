#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# style.sh [--mend] - is every C file as .clang-format has it? Other versions of clang-format break some lines
# elsewhere, so it has to be this one.
version=14
cd "$(dirname "$0")/../.." || exit 1
for format in clang-format-$version clang-format none; do
    "$format" --version 2>/dev/null | grep -q "version $version\." && break
done
[ "$format" != none ] || {
    echo "SKIP: needs clang-format $version (Debian: clang-format-$version)"
    exit 77
}
# tests/abi/1.0 has the headers of a release; the sources of tools/template have @NAME@ where words are put in.
files=$(find core include plugins tests tools -path tests/abi/1.0 -prune -o -path tools/template -prune -o -name '*.[ch]' -print)
# shellcheck disable=SC2086
case ${1-} in
--mend) exec "$format" -i $files ;;
'') "$format" --dry-run --Werror $files ;;
*) echo "usage: tests/tree/style.sh [--mend]"; exit 2 ;;
esac
