#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions that a level executes for 16 rows of weights and 64 columns, by the rows of activations, as
# lines of CSV; run in a build tree for aarch64:
#     tests/bench/instructions.sh PLUGIN LEVEL TYPE [OPTION=VALUE...]
set -eu
plugin=$1 level=$2 type=$3
shift 3
source=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/count.so" "$source/count_instructions.c"
${CROSS_CC:-aarch64-linux-gnu-gcc} -O2 -I"$source/../../include" -o "$work/run" "$source/instructions.c" -ldl
count()
{
    ${EMULATOR:-qemu-aarch64 -cpu max} -plugin "$work/count.so" -d plugin -D "$work/log" "$work/run" \
        ".libs/kt_$plugin.so" "$level" "$type" "$@"
    cat "$work/log"
}
echo backend,options,level,source_type,rows,instructions
for rows in 1 2 4 8 32 128; do
    long=$(($(count $rows 2048 3 "$@") - $(count $rows 2048 1 "$@")))
    short=$(($(count $rows 1024 3 "$@") - $(count $rows 1024 1 "$@")))
    # of two calls, and 16 times two blocks of 16 rows and 64 columns
    echo "$plugin,$*,$level,$type,$rows,$(((long - short + 32) / 64))"
done
