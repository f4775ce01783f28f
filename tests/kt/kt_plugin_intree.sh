#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt plugin new --in-tree: a copy of each backend under a new name is whole or not there, is found by configure and
# packages, and computes at the level that every CPU has. make check-intree builds one with all
# its levels and tests.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
tree=$dir/tree new=new_format
mkdir -p "$tree/include"
cp -R "$KT_TEST_SOURCE/include/kt" "$tree/include"
cp -R "$KT_TEST_SOURCE/plugins" "$tree" # with what a build among the sources left there
chmod -R u+w "$tree"
touch "$tree/plugins/rawint4/kernel_scalar.o" "$tree/plugins/rawint4/.hidden.c"
(cd "$tree" && find . -type f -exec cksum {} +) | sort -k 3 >"$dir/before"

# Nothing but the list's one line is another one than it was, and no part of a failure is left.
unchanged()
{
    (cd "$tree" && find . -type f -exec cksum {} +) | sort -k 3 | cmp -s - "$dir/before" || fail "the tree was changed"
    [ "$(find "$tree" -name '*.??????' | wc -l)" -eq 0 ] || fail "something was left behind"
}

like=$(sed -n 's,^include plugins/\(.*\)/.*\.am$,\1,p' "$tree/plugins/plugins.am" | grep -vx -e common -e bf16)
[ "$(echo "$like" | wc -l)" -ge 7 ] || fail "plugins.am must name the backends"
for backend in $like; do
    kt plugin new --in-tree new_format --like "$backend" --dir "$tree"
    exits 0
    is_silent
    says 'autoreconf -fi'
    folder=$tree/plugins/new_format
    ! grep -rqi "$backend" "$folder" --exclude=README || fail "the old name was left in $(grep -rli "$backend" "$folder")"
    grep -qx "include plugins/$new/$new.am" "$tree/plugins/plugins.am" || fail "its line must be there"
    grep '^include' "$tree/plugins/plugins.am" | grep -v /common/ | sort -c || fail "the lines must be in order"
    # What configure and packages will read; both say the same of the other backends as before.
    for as in configure control spec; do
        awk -v as=$as -v top="$tree" -f "$tree/plugins/backends.awk" - >"$dir/$as" <<'END'
Recommends: @RECOMMENDED@
@BACKENDS@
END
    done
    grep -q '^KT_BACKEND(\[new_format\], \[' "$dir/configure" || fail "configure must find it"
    grep -qx 'Package: kt-kernel-plugin-new-format' "$dir/control" || fail "Debian's packages must have it"
    grep -q '^%backend new_format - ' "$dir/spec" || fail "the spec must have it"
    ! grep -q '^Recommends:.*new-format' "$dir/control" || fail "it is not recommended for its origin"
    # Each file of its two .am is there, and nothing else is.
    cat "$folder"/*.am | grep -o 'plugins/new_format/[a-z0-9_/.]*\.\([ch]\|sh\|ini\|info\)' | sort -u >"$dir/named"
    (cd "$tree" && find plugins/new_format -type f ! -name '*.am' ! -name README) | sort >"$dir/found"
    diff "$dir/named" "$dir/found" >"$out" || fail "its .am files must name the files that are there"
    [ "$backend" = rawint4 ] || rm -r "$folder"
    [ "$backend" != rawint4 ] || mv "$folder" "$dir/copy"
    sed -i '/new_format/d' "$tree/plugins/plugins.am"
    unchanged
done

# It computes: its file for every CPU, and what kt plugin check says of that.
if [ -n "${KT_TEST_SANITIZERS:-}" ]; then
    echo "not compiled: $KT_TEST_SANITIZERS"
else
    mv "$dir/copy" "$tree/plugins/new_format"
    command_line="compiling $tree/plugins/new_format"
    # shellcheck disable=SC2086 # a compiler comes with its arguments
    ${KT_TEST_CC:?} -std=gnu11 -O1 -fPIC -shared -fvisibility=hidden -I "$tree" -I "$tree/include" \
        -I "$KT_TEST_BUILD/include" -o "$dir/kt_new_format.so" "$tree"/plugins/new_format/plugin.c \
        "$tree"/plugins/new_format/layout.c "$tree"/plugins/new_format/kernel_scalar.c -lm >"$out" 2>"$err" ||
        fail "it must compile"
    kt plugin check --quick --cases 1 "$dir/kt_new_format.so" --config "$tree/plugins/new_format/new_format.ini"
    exits 0
    says 'numbers  *scalar  *ok\|^numbers.*ok'
    rm -r "$tree/plugins/new_format"
fi

# What is there stays as it is.
refused()
{
    status=$1 text=$2
    shift 2
    kt plugin new --in-tree "$@"
    exits "$status"
    warns "$text"
    unchanged
}
refused 1 'is there already, and is left as it is' rawint4 --like llamafile --dir "$tree"
refused 1 'is there already, and is left as it is' common --dir "$tree"
refused 1 'has no backend common to copy; there are: amx_int4 ' new_format --like common --dir "$tree"
refused 1 'has no backend nobody to copy' new_format --like nobody --dir "$tree"
refused 2 'bf16 is a number format, too' new_format --like bf16 --dir "$tree"
refused 1 'is not the source tree of kt-kernel: it has no plugins/plugins.am' new_format --dir "$dir/home"
refused 1 'is not the source tree of kt-kernel' new_format --dir "$tree/plugins"
refused 2 "'': a backend's name has at most" '' --dir "$tree"
refused 2 "a backend's name has at most" New --dir "$tree"
refused 2 "a backend's name has at most" new_format --like ../x --dir "$tree"
kt plugin new new_format --like rawint4
exits 2
kt plugin check --in-tree kt_x.so
exits 2
warns 'in-tree is an option of kt plugin new'
mv "$tree/include/kt/plugin.h" "$dir/plugin.h"
kt plugin new --in-tree new_format --dir "$tree"
exits 1
warns 'it has no include/kt/plugin.h'
mv "$dir/plugin.h" "$tree/include/kt"
cp "$tree/plugins/plugins.am" "$dir/plugins.am"
echo "include plugins/$new/$new.am" >>"$tree/plugins/plugins.am"
kt plugin new --in-tree new_format --dir "$tree"
exits 1
warns 'has a row of new_format already'
cp "$dir/plugins.am" "$tree/plugins/plugins.am"

# Nothing is left of a backend that cannot be written.
(
    uncounted
    ulimit -f 4 2>/dev/null || exit 0
    trap '' XFSZ
    kt_run plugin new --in-tree new_format --dir "$tree" >"$out" 2>"$err"
)
unchanged
finish
