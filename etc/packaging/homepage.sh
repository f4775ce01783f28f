#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# homepage.sh URL FOLDER|SPEC - the project's home in a package's sources: Homepage and watch of the debian/ in FOLDER, or
# URL of an RPM's SPEC. One that is there already is replaced.
set -eu
url=${1%/} file=$2
case $url in
*[[:space:]]*) right=no ;;
http://?* | https://?*) right=yes ;;
*) right=no ;;
esac
if [ $right = no ]; then
    echo "HOMEPAGE=$1: an address such as https://example.org/kt-kernel is needed" >&2
    exit 2
fi
text=$(printf '%s\n' "$url" | sed 's/[&|\\]/\\&/g')
if [ -d "$file" ]; then
    sed -i -e '/^Homepage:/d' -e "s|^Rules-Requires-Root:|Homepage: $text\\n&|" "$file/control"
    sed "s|@URL@|$text|" "$file/watch.in" >"$file/watch"
else
    sed -i -e '/^URL:/d' -e "s|^Source0:|URL:            $text\\n&|" "$file"
fi
