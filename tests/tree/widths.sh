#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README.md fits into 100 columns and has the commands to start with on its first screen; the README files of folders
# fit into 110 columns.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
failed=0
# wide COLUMNS FILE...
wide() {
    most=$1
    shift
    awk -v most="$most" 'length > most { print FILENAME ":" FNR ": " length " columns, " most " are the most"; bad = 1 }
        END { exit bad }' "$@" || failed=1
}
wide 100 README.md
# shellcheck disable=SC2046 # names without blanks
wide 110 HACKING SECURITY $(find core plugins tools tests include etc m4 findings -name README -type f)
for what in tools/quickstart 'kt run MODEL' curl llama-server ik_llama.cpp 'peers-xeon.svg'; do
    head -n 45 README.md | grep -qF "$what" || { echo "README.md: $what is not in the first 45 lines"; failed=1; }
done
exit $failed
