#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plugins/NAME/levels.am is what plugins/levels.awk makes of plugin.c's rows, and each row has its kernel, each kernel
# its row.
cd "${KT_TEST_SOURCE:-$(dirname "$0")/../..}" || exit 1
failed=0
for made in plugins/*/levels.am; do
    folder=${made%/levels.am}
    awk -f plugins/levels.awk "$folder/plugin.c" | cmp -s - "$made" ||
        { echo "FAIL: $made is not what $folder/plugin.c says: make levels"; failed=1; }
    for kernel in "$folder"/kernel_*.c; do
        level=${kernel##*/kernel_}
        grep -qE "LEVEL\\(${level%.c}, " "$folder/plugin.c" ||
            { echo "FAIL: $folder/plugin.c has no row for $kernel"; failed=1; }
    done
    for level in $(sed -nE 's/^ *[A-Z_]*LEVEL\(([a-z0-9_]+), .*/\1/p' "$folder/plugin.c"); do
        [ -e "$folder/kernel_$level.c" ] || { echo "FAIL: $folder has no kernel_$level.c"; failed=1; }
    done
done
exit $failed
