#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Output of kt on a terminal: rows fit, wrap at spaces only, and failed and refused are red.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "script(1) of util-linux is not here"
model=$data/tiny-moe-q4_k_m.gguf
esc=$(printf '\033')
TERM=xterm
SHELL=/bin/sh
export TERM SHELL
unset NO_COLOR

# kt on a terminal of $1 columns; what it shows, messages too, goes to $out.
terminal()
{
    columns=$1
    shift
    command_line="kt $* (on $columns columns)"
    {
        echo "stty cols $columns || exit 99"
        printf 'LD_LIBRARY_PATH=%s/.libs %s %s/.libs/kt' "$KT_TEST_BUILD" "${EMULATOR:-}" "$KT_TEST_BUILD"
        for argument; do
            printf " '%s'" "$argument"
        done
    } >"$dir/line"
    script -qec "sh $dir/line" /dev/null </dev/null >"$out" 2>"$err"
    code=$?
    cp "$out" "$dir/raw"
    # A line of progress is written over: each of its states is a line here.
    sed -i -e 's/\r$//' -e "s/\r$esc\[K/\n/g" "$out"
    sed -i -e 's/\r//g' -e '/^qemu-[a-z0-9_]*: warning: /d' "$out"
}

# No line of a table is longer than the terminal; messages have lines of their own.
fits()
{
    sed -e "s/$esc\[[0-9]*m//g" -e '/^kt [a-z]*: /d' "$out" >"$dir/plain"
    awk -v columns="$columns" 'length > columns { print; bad = 1 } END { exit bad }' "$dir/plain" ||
        fail "a line is longer than the terminal"
    ! grep -q ' $' "$dir/plain" || fail "a line ends with a space"
}

# A plugin that is missing: a long reason, with a path.
mkdir -p "$dir/etc/plugins.d"
path=$dir/etc/plugins.d/a_drop_in.ini
printf '[plugin.absent]\nmodule = kt_absent.so\n' >"$path"
with_plugin llamafile || :
for width in 72 80 100; do
    terminal $width backends
    exits 0
    fits
    says "$esc\[31mfailed$esc\[0m"
    says '^absent '
    terminal $width backends --options
    fits
    terminal $width config path
    fits
    says "$path"
    terminal $width config show
    fits
    terminal $width config check
    exits 1
    fits
    terminal $width doctor
    fits
    terminal $width explain --model "$model" -v
    exits 0
    sed -i '/^model: /d' "$out"
    fits
    terminal $width inspect "$model"
    sed -i '/^file: /d' "$out"
    fits
    says '^ *3  *8  *2  *256  *256  *q4_k  *q4_k  *q6_k  *[0-9.]* KiB$' # in one line
    terminal $width inspect "$model" --tensors
    sed -i '/^file: /d' "$out"
    fits
done

# A path that no line has room for is cut before one of its parts, and narrows no other column.
long=$dir/a-folder-with-a-name-that-is-rather-long/and-another-one-that-has-a-name/of-the-same-kind
mkdir -p "$long/plugins.d"
cp "$path" "$long/plugins.d/"
KT_KERNEL_SYSCONFDIR=$long
terminal 80 doctor
fits
says '^config file  *ok'
terminal 80 backends
fits
KT_KERNEL_SYSCONFDIR=$dir/etc

# What backends say of many linears stands there once for all of them.
terminal 1000 explain --model "$model" -v --set core.backend=reference
[ "$(grep -c 'reference .* chosen' "$out")" = 2 ] || fail "a choice is said once for layers and once for linears"

# Each word is whole: what a wide terminal shows is there on a narrow one, too.
terminal 1000 backends
tr -s ' \n' '\n\n' <"$out" | sort >"$dir/words"
terminal 72 backends
tr -s ' \n' '\n\n' <"$out" | sort | comm -23 "$dir/words" - >"$dir/broken"
[ ! -s "$dir/broken" ] || fail "words are broken: $(cat "$dir/broken")"

# A model of 48 layers is explained on one screen of 24 lines, with the command and the next prompt; no line wraps.
if [ "${PYTHON:-:}" != : ] && "$PYTHON" -c 'import numpy' 2>/dev/null &&
    PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$KT_TEST_SOURCE/tests/bench/make_model.py" --hollow --layers 48 "$dir/48.gguf"; then
    with_plugin attention || :
    terminal 80 explain "$dir/48.gguf" --set core.memory_mib=65536
    exits 0
    sed -i '/^kt explain: warning: /d' "$out"
    fits
    [ "$(wc -l <"$out")" -le 22 ] || fail "it is longer than a screen"
    says '^0-5,8,11,...,38,41-47  *q4_k q4_k q6_k  .* MiB$'
    says '^blk.0-5,8,11,...,38,41-47.attn_v  *24  q6_k  .* [KM]iB$'
    says '^threads:  *[0-9]*  .*  [a-z ]*: '
    terminal 80 explain "$dir/48.gguf" --set core.memory_mib=65536 -v
    says '128x2048x768'
    says 'BUFFERS'
    rm "$dir/48.gguf"
fi

# The line of progress never wraps: it could not be removed again.
terminal 40 bench "$model" --layers 0 --backend reference --threads 1 --cycle 2 --repeats 3 --runs 1
exits 0
tr '\r' '\n' <"$dir/raw" | sed -n "s/^$esc\[K\(kt bench: .*\)/\1/p" >"$dir/lines"
grep -q 'timing reference with' "$dir/lines" || fail "there is a line of progress: $(cat "$dir/lines")"
awk 'length > 39 { exit 1 }' "$dir/lines" || fail "it wraps: $(cat "$dir/lines")"

# Color: only where it is wanted.
for none in NO_COLOR=1 TERM=dumb; do
    terminal 80 backends
    sed -i "s|LD_LIBRARY_PATH|$none &|" "$dir/line"
    script -qec "sh $dir/line" /dev/null </dev/null >"$out" 2>"$err"
    says '^absent  *failed'
    ! grep -q "$esc" "$out" || fail "$none must leave colors out"
done
finish
