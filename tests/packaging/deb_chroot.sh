#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-deb: a machine's life with the packages in FOLDER, in a Debian of its own. Each backend's package
# is installed and removed, what an administrator wrote survives, a plugin for a newer ABI is refused, and
# the packages' own tests (debian/tests) pass. Takes some minutes and a network.
#     tests/packaging/deb_chroot.sh FOLDER NEWER-PLUGIN
# KT_DEB_ROOT names a minimal Debian to copy (debootstrap --variant=minbase) instead of fetching one.
set -eu
folder=$(cd "$1" && pwd) newer=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "SKIP: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "deb_chroot.sh needs root, for chroot"
for tool in debootstrap dpkg-deb unshare; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
# Mounts of a namespace of its own go with it.
[ -n "${KT_DEB_INSIDE:-}" ] || KT_DEB_INSIDE=yes exec unshare --mount "$0" "$@"

umask 022
LC_ALL=C DEBIAN_FRONTEND=noninteractive
export LC_ALL DEBIAN_FRONTEND
unset XDG_CONFIG_HOME
for name in $(env | sed -n 's/^\(KT_KERNEL_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
work=$(mktemp -d)
root=$work/root
trap 'umount "$root/proc" "$root/sys" 2>/dev/null || :; rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() { echo "deb_chroot: FAILED: $*"; exit 1; }
# step WORDS COMMAND...: quiet unless it fails; $out is what it printed
out=$work/out
step()
{
    echo "deb_chroot: $1"
    shift
    "$@" >"$out" 2>&1 || { cat "$out"; fail "$*"; }
}
inside() { HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }
quiet() { inside "$@" >"$out" 2>&1 || { cat "$out"; fail "$*"; }; }
says() { grep -qE -e "$1" "$out" || { cat "$out"; fail "this must hold: $1"; }; }
says_not() { ! grep -qE -e "$1" "$out" || { cat "$out"; fail "this must not hold: $1"; }; }
apt() { quiet apt-get -y -q --no-install-recommends "$@"; }
deb() { (cd "$folder" && set -- "$1"_[0-9]*.deb && [ -f "$1" ] && echo "/debs/$1"); }
backends()
{
    inside kt backends --format csv >"$out" || fail "kt backends"
    says '^reference,loaded,'
    echo $(sed -n '2,$s/,.*//p' "$out")
}

if [ -n "${KT_DEB_ROOT:-}" ]; then
    step "copying $KT_DEB_ROOT" cp -a "$KT_DEB_ROOT" "$root"
else
    . /etc/os-release
    step "a minimal ${VERSION_CODENAME:?no Debian}" debootstrap --variant=minbase "$VERSION_CODENAME" "$root"
fi
mount -t proc proc "$root/proc" && mount --bind -o ro /sys "$root/sys" || skip "nothing can be mounted here"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/debs" "$root/src/tests"
cp "$folder"/*.deb "$root/debs"
cp -R "$source/README.md" "$root/src"
cp -R "$source/tests/data" "$root/src/tests"
cp -R "$source/etc/packaging/debian" "$root/src/debian"
plugins=$(cd "$folder" && ls kt-kernel-plugin-*.deb | sed -n '/-dbgsym_/d; s/_.*//; s/^kt-kernel-plugin-//p')
[ -n "$plugins" ] || fail "there is no package of a plugin in $folder"
step "apt-get update" inside apt-get -q update

echo "deb_chroot: the library, the command and one backend"
apt install "$(deb libktkernel0)" "$(deb kt-kernel-tools)" "$(deb kt-kernel-plugin-llamafile)"
[ "$(backends)" = "llamafile reference" ] || fail "kt backends must list llamafile and the reference only"
says '^llamafile,loaded,'
step "debian/tests/command: kt backends, kt doctor, kt forward --check" inside sh -c "cd /src && debian/tests/command"
echo "deb_chroot: the Python package"
apt install "$(deb python3-kt-kernel)" python3-numpy
step "debian/tests/python: KTMoEWrapper" inside sh -c "cd /src && debian/tests/python"
quiet dpkg --purge python3-kt-kernel
[ ! -e "$root/usr/lib/python3/dist-packages/kt_kernel" ] || fail "the Python package left files behind"
echo "deb_chroot: the server"
apt install "$(deb kt-kernel-serve)" "$(deb kt-kernel-plugin-attention)"
step "debian/tests/serve: kt run and kt chat" inside sh -c "cd /src && debian/tests/serve"
quiet dpkg --purge kt-kernel-serve kt-kernel-plugin-attention
left=$(find "$root/usr" -name 'kt-serve*' -o -name 'kt-run*' -o -name 'kt-chat*')
[ -z "$left" ] || fail "kt-kernel-serve left $left behind"
quiet dpkg --purge kt-kernel-plugin-llamafile
[ "$(backends)" = reference ] || fail "without a plugin there must be the reference only"
quiet kt doctor

for plugin in $plugins; do
    name=$(echo "$plugin" | tr - _)
    echo "deb_chroot: $name comes and goes"
    quiet dpkg --install "$(deb "kt-kernel-plugin-$plugin")"
    [ "$(backends)" = "$name reference" ] || fail "kt backends must list $name and the reference only"
    says "^$name,loaded,"
    quiet kt doctor
    says "^self-test $name +ok"
    quiet dpkg --remove "kt-kernel-plugin-$plugin"
    [ "$(backends)" = reference ] || fail "$name must be gone"
    left=$(find "$root/usr" -name "kt_$name.so" -o -name "$name.ini")
    [ -z "$left" ] || fail "the package left $left behind"
done

echo "deb_chroot: what the administrator wrote"
override=$root/etc/kt-kernel/plugins.d/bf16.ini
printf '; mine\n[plugin.bf16]\npriority = 77\n' >"$override"
cp "$override" "$work/override"
bf16=$(deb kt-kernel-plugin-bf16)
quiet dpkg --install "$bf16" "$(deb kt-kernel-plugin-llamafile)"
# A later version of the same package.
dpkg-deb -R "$root$bf16" "$work/later"
sed -i 's/^Version: .*/&+later1/' "$work/later/DEBIAN/control"
dpkg-deb --root-owner-group -b "$work/later" "$root/later.deb" >"$out"
quiet dpkg --install /later.deb
grep -q later1 "$root/var/lib/dpkg/status" || fail "the later version was not installed"
cmp "$override" "$work/override" || fail "an upgrade changed the administrator's drop-in"
inside kt config show --format csv >"$out"
says '^plugin.bf16,priority,77,/etc/kt-kernel/plugins.d/bf16.ini:3,'
quiet dpkg --purge kt-kernel-plugin-bf16
cmp "$override" "$work/override" || fail "purging changed the administrator's drop-in"
backends >/dev/null
says '^bf16,failed,.*kt_bf16.so is not in /usr/lib/.*install it'
says '^llamafile,loaded,'
printf '[plugin.bf16]\nenabled = n' >"$override"
printf '[plugin.llamafile]\n' >"$root/usr/share/kt-kernel/plugins.d/twin.ini"
backends >/dev/null
says '^bf16,failed,.*/etc/kt-kernel/plugins.d/bf16.ini:2: .*must be one of no\|yes\|required'
says '^llamafile,failed,.*twin.ini:1: .*llamafile.ini; remove one'
rm "$override" "$root/usr/share/kt-kernel/plugins.d/twin.ini"
[ "$(backends)" = "llamafile reference" ] || fail "all must be well again"

echo "deb_chroot: a plugin for a newer ABI"
modules=$(dirname "$(inside dpkg -L kt-kernel-plugin-llamafile | grep '\.so$')")
mkdir -p "$work/newer/DEBIAN" "$work/newer$modules" "$work/newer/usr/share/kt-kernel/plugins.d"
cp "$newer" "$work/newer$modules/kt_newer_minor.so"
chmod 644 "$work/newer$modules/kt_newer_minor.so"
printf '[plugin.newer_minor]\n' >"$work/newer/usr/share/kt-kernel/plugins.d/newer_minor.ini"
cat >"$work/newer/DEBIAN/control" <<'END'
Package: kt-kernel-plugin-newer-minor
Version: 1
Architecture: all
Maintainer: nobody <nobody@localhost>
Depends: ktkernel-plugin-abi-1 (>= 1.99)
Description: a plugin for an ABI to come
END
dpkg-deb --root-owner-group -b "$work/newer" "$root/newer.deb" >"$out"
! inside apt-get -y -q install /newer.deb >"$out" 2>&1 || fail "apt-get must refuse a plugin for a newer ABI"
says 'ktkernel-plugin-abi-1 \(>= 1.99\)'
inside dpkg --force-depends --install /newer.deb >"$out" 2>&1 || fail "dpkg --force-depends"
backends >/dev/null
says '^newer_minor,failed,.*built for plugin ABI 1\.99, this core has 1\.[0-9]+; update kt-kernel'
says '^llamafile,loaded,'
quiet dpkg --purge kt-kernel-plugin-newer-minor

echo "deb_chroot: a third party's plugin"
apt install "$(deb libktkernel-dev)" autoconf automake build-essential libtool pkgconf
step "debian/tests/out-of-tree" inside sh -c "cd /src && debian/tests/out-of-tree"
echo "deb_chroot: and its package, built with libktkernel-dev alone"
quiet sh -c "cd /src && kt plugin new third_party"
quiet dpkg --purge kt-kernel-tools kt-kernel-plugin-llamafile
apt install debhelper
DEB_BUILD_OPTIONS=nocheck DEB_BUILD_PROFILES=nocheck
export DEB_BUILD_OPTIONS DEB_BUILD_PROFILES
quiet sh -c "cd /src/kt-kernel-plugin-third-party && dpkg-buildpackage -us -uc -b"
quiet dpkg --install "$(deb kt-kernel-tools)"
quiet sh -c "dpkg --install /src/kt-kernel-plugin-third-party_*.deb"
[ "$(backends)" = "third_party reference" ] || fail "kt backends must list third_party and the reference only"
says '^third_party,loaded,'
quiet dpkg --purge kt-kernel-plugin-third-party kt-kernel-tools libktkernel-dev libktkernel0
left=$(find "$root/usr" "$root/etc" -name '*ktkernel*' -o -name '*kt-kernel*')
[ -z "$left" ] || fail "the packages left $left behind"
echo "deb_chroot: passed, with the backends" $plugins
