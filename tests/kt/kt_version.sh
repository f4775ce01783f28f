#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt version says what a report of an error needs: the CPU's level, the prefix and the Python package.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
unset KT_KERNEL_CPU_VARIANT # a mask would be named
build=$kt_program

kt doctor --format csv
sed -n 's/^cpu level,[a-z]*,\([a-z0-9_]*\),.*/\1/p' "$out" >"$dir/level"
kt version
exits 0
is_silent
says "^CPU level: *$(cat "$dir/level")$"
says '^prefix: *none: a build'
says '^Python package: none is found$'
kt version --set core.cpu_variant=scalar
says '^CPU level: *scalar (core.cpu_variant masks the CPU)$'
kt version --set core.cpu_variant=scalar --format json
says '"cpu_level": "scalar"'
says '"prefix": ""'
says '"python_package": ""'

# Who reports a wrong configuration needs the versions most.
echo 'threads = many' >"$dir/wrong.ini"
kt --config "$dir/wrong.ini" version
exits 0
says '^CPU level: *unknown$'
says "^The CPU's level is not known: .*wrong.ini:1: "
kt --config "$dir/wrong.ini" version --format json
exits 0
says '"cpu_level": ""'

# Installed by make install into a folder, wherever that is moved to; and in a wheel.
pythondir=$(sed -n 's/^pythondir = \${[A-Za-z_]*}//p' "$KT_TEST_BUILD/Makefile")
mkdir -p "$dir/inst/bin" "$dir/lib/python3.99/site-packages/kt_kernel/_files/bin"
cp "$build" "$dir/inst/bin/kt"
kt_program=$dir/inst/bin/kt
kt version
exits 0
says "^program: *$dir/inst/bin/kt$"
says "^prefix: *$dir/inst$"
says '^Python package: none is found$'
if [ -n "$pythondir" ]; then
    mkdir -p "$dir/inst$pythondir/kt_kernel"
    : >"$dir/inst$pythondir/kt_kernel/__init__.py"
    kt version
    says "^Python package: $dir/inst$pythondir/kt_kernel, of python"
fi
site=$dir/lib/python3.99/site-packages
cp "$build" "$site/kt_kernel/_files/bin/kt"
: >"$site/kt_kernel/__init__.py"
kt_program=$site/kt_kernel/_files/bin/kt
kt version
says "^Python package: $site/kt_kernel, of python3.99$"
kt version --format json
says '"python": "python3.99"'
says "\"python_package\": \"$site/kt_kernel\""
says "\"prefix\": \"$site/kt_kernel/_files\""

finish
