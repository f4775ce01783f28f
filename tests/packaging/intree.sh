#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# intree.sh - make check-intree: what kt plugin new --in-tree writes builds and passes its tests, in a copy of the
# sources of which nothing else is built. KT_TEST_LIKE: the backend that is copied.
set -eu
: "${KT_TEST_BUILD:?is set by make}" "${KT_TEST_SOURCE:?is set by make}"
like=${KT_TEST_LIKE:-rawint4} tree=$KT_TEST_BUILD/intree
rm -rf "$tree"
mkdir -p "$tree"
cd "$KT_TEST_SOURCE"
for entry in configure.ac kt-kernel.pc.in kt-kernel-engine.pc.in Makefile.am COPYING HACKING README.md core etc include m4 plugins tests tools; do
    cp -R "$entry" "$tree"
done
chmod -R u+w "$tree"
cd "$tree"
"$KT_TEST_BUILD/kt" plugin new --in-tree new_format --like "$like"
autoreconf -fi
mkdir build
cd build
# Configured as this build is, so that ccache has all objects that do not differ.
eval "set -- $("$KT_TEST_BUILD/config.status" --config)"
../configure --silent "$@" --enable-werror --enable-emulation=missing --with-plugins=new_format
${MAKE:-make} -j "$(nproc)"
"$KT_TEST_BUILD/kt" plugin check --quick .libs/kt_new_format.so --config ../plugins/new_format/new_format.ini
${MAKE:-make} -j "$(nproc)" check-backend BACKEND=new_format CFLAGS='-g1 -O1'
