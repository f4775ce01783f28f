#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-reproducible: the packages in FOLDER, built again from their source package in another place, by
# another number of jobs, with another locale, time zone and umask, and from files of another date, are the
# same bytes.
set -eu
folder=$(cd "$1" && pwd)
command -v dpkg-buildpackage >/dev/null || { echo "SKIP: dpkg-buildpackage is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/another/and/longer/place"
cd "$work/another/and/longer/place"
dpkg-source --no-check -x "$folder"/kt-kernel_*.dsc source >"$work/log"
find source -exec touch -h {} +
echo "deb_reproducible: building once more"
(cd source && umask 002 && env -i PATH="$PATH" HOME="$work" TZ=Asia/Tokyo LC_ALL=C \
    DEB_BUILD_OPTIONS="nocheck parallel=3" dpkg-buildpackage -us -uc -b) >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; echo "deb_reproducible: FAILED: dpkg-buildpackage"; exit 1; }
failed=0 same=0
for package in *.deb; do
    if cmp "$package" "$folder/$package"; then
        same=$((same + 1))
    else
        failed=1
        ! command -v diffoscope >/dev/null || diffoscope "$folder/$package" "$package" | head -n 40 || :
    fi
done
[ $failed -eq 0 ] && [ $same -gt 0 ] || { echo "deb_reproducible: FAILED: see above"; exit 1; }
echo "deb_reproducible: passed, $same packages are the same bytes"
