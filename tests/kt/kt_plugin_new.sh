#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt plugin new: the project is whole or not there, and nothing is overwritten. make installcheck builds it.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"

kt plugin new my_format --dir "$dir/project"
exits 0
is_silent
# The steps that it prints name the folders of a prefix that neither aclocal nor pkg-config knows.
eval "$(grep -E '^(prefix|exec_prefix|libdir|datarootdir|datadir)=' "$KT_TEST_BUILD/kt-kernel.pc")"
case ${prefix:?} in
/usr) says 'autoreconf -fi && \./configure && make' ;;
*) says "autoreconf -fi -I ${datadir:?}/aclocal && \\./configure PKG_CONFIG_PATH=${libdir:?}/pkgconfig && make" ;;
esac
for file in configure.ac Makefile.am my_format.c my_format.ini README tests/conformance.sh debian/control \
    debian/rules debian/changelog debian/copyright debian/source/format; do
    [ -s "$dir/project/$file" ] || fail "$file must be there"
done
[ -x "$dir/project/debian/rules" ] || fail "debian/rules must be a program"
grep -q '^KT_PLUGIN_DEFINE(my_format)' "$dir/project/my_format.c" || fail "the symbol must be called after it"
grep -q '^Package: kt-kernel-plugin-my-format$' "$dir/project/debian/control" || fail "packages have no _"
grep -q 'ktkernel:Abi=ktkernel-plugin-abi-' "$dir/project/debian/rules" || fail "the package needs the plugin ABI"
grep -q '[$]{ktkernel:Abi}' "$dir/project/debian/control" || fail "the package needs the plugin ABI"
grep -q "^ -- .*  [A-Z][a-z][a-z], .* $(date -u +%Y) [0-9:]* +0000\$" "$dir/project/debian/changelog" ||
    fail "the changelog must have today's date"
# Its drop-in lets every other backend go first, as it says.
priority=$(sed -n 's/^priority = //p' "$dir/project/my_format.ini")
for ini in "$KT_TEST_SOURCE"/plugins/*/*.ini; do
    other=$(sed -n 's/^priority = //p' "$ini")
    [ "${priority:-0}" -lt "${other:-0}" ] || fail "$ini must go before it"
done
! grep -rq '@[A-Z]*@' "$dir/project" || fail "a placeholder was left"
! ls -d "$dir"/project.* >/dev/null 2>&1 || fail "a folder was left behind"

# What is there stays as it is.
echo mine >"$dir/project/README"
kt plugin new my_format --dir "$dir/project"
exits 1
warns 'is there already, and is left as it is'
[ "$(cat "$dir/project/README")" = mine ] || fail "a file was overwritten"
mkdir "$dir/empty"
kt plugin new my_format --dir "$dir/empty/"
exits 1
[ -z "$(ls -A "$dir/empty")" ] || fail "a folder that was there was filled"
ln -s nowhere "$dir/link"
kt plugin new my_format --dir "$dir/link"
exits 1

# Without --dir it is called after the backend, in the current folder.
command_line="kt plugin new in $dir/home"
(cd "$dir/home" && kt_run plugin new other_one >"$out" 2>"$err") || fail "the exit status must be 0"
[ -f "$dir/home/kt-kernel-plugin-other-one/other_one.c" ] || fail "it must be called kt-kernel-plugin-other-one"

# Nothing is left of a project that cannot be written.
kt plugin new my_format --dir "$dir/no/such/folder"
exits 1
warns 'cannot be made'
(
    uncounted
    ulimit -f 4 2>"$err" || exit 0
    kt_run plugin new my_format --dir "$dir/limited" >"$out" 2>"$err"
) && [ -e "$dir/limited" ] || :
[ ! -e "$dir/limited/README" ] || [ -s "$dir/limited/my_format.c" ] || fail "a project was half written"
! ls -d "$dir"/limited.* >/dev/null 2>&1 || fail "a part of a project was left behind"

for name in Upper 1st '' a-b a__b trailing_ auto reference a/b ../x 'a b' "$(printf 'a%031d' 0)"; do
    kt plugin new "$name"
    exits 2
    warns 'a backend.s name has\|value'
done
kt plugin new amx_int4
exits 2
warns "amx_int4 is a backend of kt-kernel's own"
[ "$(find "$dir/home" -mindepth 1 -maxdepth 1 ! -name '.*' | wc -l)" -eq 1 ] || fail "a refused name left something"
finish
