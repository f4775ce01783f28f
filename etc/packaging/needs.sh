#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# needs.sh deb|rpm CONTROL|SPEC [install] - before make deb or make rpm makes anything: is all there that they need? Says
# what is not and how to get it, or installs it.
set -eu
kind=$1 file=$2 action=${3:-}

# missing INSTALL-COMMAND NAME...
missing()
{
    command=$1
    shift
    [ $# -gt 0 ] || return 0
    if [ "$action" = install ]; then
        root=
        [ "$(id -u)" -eq 0 ] || root=sudo
        # shellcheck disable=SC2086 # several words
        $root $command "$@"
        return
    fi
    echo "make $kind needs what is not installed: $*"
    echo "    $command $*"
    echo "installs it, as root; make $kind DEPENDS=install does both."
    exit 1
}

apt='apt-get install -y --no-install-recommends'
case $kind in
deb)
    command -v dpkg-buildpackage >/dev/null || missing "$apt" dpkg-dev
    # Names alone, the first of alternatives, and for what others provide who does.
    names=$(dpkg-checkbuilddeps "$file" 2>&1 | sed -n 's/.*[Uu]nmet build dependencies: *//p' |
        sed -e 's/([^)]*)//g' -e 's/| *[^ ]*//g' -e 's/:[a-z]*//g' \
            -e 's/debhelper-compat/debhelper/' -e 's/dh-sequence-python3/dh-python/')
    # shellcheck disable=SC2086
    missing "$apt" $names
    dpkg-checkbuilddeps "$file"
    ;;
rpm)
    if command -v apt-get >/dev/null; then
        command -v rpmbuild >/dev/null || missing "$apt" rpm
    else
        command -v rpmbuild >/dev/null || missing "dnf install -y" rpm-build
    fi
    # On a system of another kind rpm's own database is empty, and `make rpm` does not ask it.
    [ -n "$(rpm -qa 2>/dev/null | head -n 1)" ] || exit 0
    names=
    for name in $(rpmspec -q --buildrequires "$file" | sed 's/ .*//'); do
        rpm -q --whatprovides "$name" >/dev/null 2>&1 || names="$names $name"
    done
    # shellcheck disable=SC2086
    missing "dnf install -y" $names
    ;;
*) echo "usage: needs.sh deb|rpm CONTROL|SPEC [install]"; exit 2 ;;
esac
