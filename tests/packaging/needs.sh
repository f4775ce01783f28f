#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make deb and make rpm say what they need before they start, and install it when asked: etc/packaging/needs.sh, on a
# machine made up of stand-ins; HOMEPAGE= names the project's home in them. What is installed lands in the
# share/doc that a reader looks into.
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
# HOMEPAGE=URL names the project's home in both kinds of packages, whatever stood there.
home()
{
    command_line="homepage.sh $*"
    sh "$KT_TEST_SOURCE/etc/packaging/homepage.sh" "$@" >"$out" 2>"$err"
    code=$?
}
packaging=$KT_TEST_SOURCE/etc/packaging
mkdir "$dir/debian"
cp "$packaging/debian/watch.in" "$dir/debian"
make_from() # WHAT TEMPLATE
{
    awk -v as="$1" -v url= -v top="$KT_TEST_SOURCE" -f "$KT_TEST_SOURCE/plugins/backends.awk" "$packaging/$2"
}
make_from control debian/control.in >"$dir/debian/control"
make_from spec kt-kernel.spec.in >"$dir/spec"
for url in https://example.org/first https://example.org/a\&b/; do
    home "$url" "$dir/debian"
    exits 0
    home "$url" "$dir/spec"
    exits 0
done
[ "$(grep -c '^Homepage:' "$dir/debian/control")" = 1 ] || fail "control has one Homepage"
sed -n '/^$/q;p' "$dir/debian/control" | grep -qx 'Homepage: https://example.org/a&b' || fail "of the source package"
grep -q '^https://example.org/a&b/releases .*kt-kernel-' "$dir/debian/watch" || fail "watch looks for releases there"
[ "$(grep '^URL:' "$dir/spec")" = 'URL:            https://example.org/a&b' ] || fail "the spec has one URL"
home 'example.org' "$dir/debian"
exits 2
warns 'HOMEPAGE=example.org: an address such as https://'
make -n -C "$KT_TEST_BUILD" deb HOMEPAGE=https://example.org/x >"$out" 2>"$err"
grep -q "homepage.sh 'https://example.org/x' deb/.*/debian" "$out" || fail "make deb HOMEPAGE=URL fills them in"
grep -q '<!nocheck>' "$KT_TEST_SOURCE/etc/packaging/debian/control.in" || fail "the profile has something to leave out"
finish
