#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# KT_BACKEND rows: auto goes without what cannot be built, asking for it is an error.
set -eu
source=${KT_TEST_SOURCE:?run by make check}
for tool in aclocal autoconf; do
    command -v "$tool" >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir m4 && cp "$source/m4/kt-backend.m4" m4
cp "$source/build-aux/install-sh" "$source/build-aux/missing" .
cat >configure.ac <<'ROWS'
AC_INIT([rows], [1])
AM_INIT_AUTOMAKE([foreign])
KT_BACKENDS_INIT
KT_BACKEND([plain], [needs nothing])
KT_BACKEND([needs_moon], [needs the moon], [kt_missing="the moon is not up"])
KT_BACKENDS_DONE
AS_ECHO(["$kt_backend_summary"])
ROWS
aclocal -I m4 && autoconf 2>warnings || { cat warnings; exit 1; }

failed=0
# try WANTED-STATUS WANTED-TEXT OPTION...
try() {
    status=$1 text=$2
    shift 2
    got=0
    ./configure "$@" >out 2>&1 || got=1
    if [ $got -ne "$status" ] || ! tr -s ' ' <out | grep -qF -- "$text"; then
        echo "FAIL: configure $*: status $got; wanted $status and '$text' in:"
        cat out
        failed=1
    fi
}
try 0 'plain yes'
try 0 'needs_moon no the moon is not up'
try 0 'plain no --enable-plain=no' --disable-plain
try 1 'asks for the backend needs_moon, but the moon is not up' --enable-needs-moon
try 1 'asks for the backend needs_moon, but the moon is not up' --with-plugins=all
try 1 'asks for the backend needs_moon, but the moon is not up' --with-plugins=plain,needs_moon
try 0 'needs_moon no --enable-needs-moon=no' --with-plugins=all --disable-needs_moon
try 0 'needs_moon no --with-plugins=plain' --with-plugins=plain
try 0 'plain no --with-plugins=none' --without-plugins
try 0 'plain yes --enable-plain=yes' --with-plugins=none --enable-plain
try 1 "names 'plane'; there are: plain needs_moon" --with-plugins=plane
try 1 'say auto, yes or no' --enable-plain=perhaps
exit $failed
