#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make deb and make rpm say what they need before they start, and install it when asked: etc/packaging/needs.sh, on a
# machine made up of stand-ins. What is installed lands in the share/doc that a reader looks into.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
mkdir "$dir/bin"
stand_in()
{
    { echo '#!/bin/sh'; cat; } >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
stand_in dpkg-buildpackage </dev/null
stand_in dpkg-checkbuilddeps <<END
[ -e "$dir/installed" ] && exit 0
echo "dpkg-checkbuilddeps: error: Unmet build dependencies: debhelper-compat (= 13) dh-sequence-python3" \
    "pkgconf | pkg-config python3:any (>= 3.9)" >&2
exit 1
END
stand_in apt-get <<END
echo "\$*" >"$dir/installed"
END
stand_in sudo <<'END'
exec "$@"
END
stand_in rpm </dev/null
needs()
{
    command_line="needs.sh $*"
    PATH=$dir/bin:$PATH sh "$KT_TEST_SOURCE/etc/packaging/needs.sh" "$@" >"$out" 2>"$err"
    code=$?
}
needs deb control
exits 1
says '^make deb needs what is not installed: debhelper dh-python pkgconf python3$'
says '^    apt-get install .* debhelper dh-python pkgconf python3$'
says 'make deb DEPENDS=install'
[ ! -e "$dir/installed" ] || fail "nothing is installed unasked"
needs deb control install
exits 0
grep -q '^install .* debhelper dh-python pkgconf python3$' "$dir/installed" || fail "what is missing is installed"
needs deb control
exits 0
[ ! -s "$out" ] || fail "where all is there it is silent"
stand_in rpmbuild </dev/null
needs rpm spec
exits 0

# make deb builds without tests by default, and then asks for nothing that only they need.
command_line="make -n deb"
make -n -C "$KT_TEST_BUILD" deb >"$out" 2>"$err"
code=$?
exits 0
says 'DEB_BUILD_PROFILES=.*nocheck'
awk '/needs\.sh deb/ { asked = NR } / dist$/ && !made { made = asked ? NR : -1 } END { exit !(asked && made > 0) }' "$out" ||
    fail "it asks before it makes the tarball"
grep -q '<!nocheck>' "$KT_TEST_SOURCE/etc/packaging/debian/control.in" || fail "the profile has something to leave out"
finish
