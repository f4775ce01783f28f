# SPDX-License-Identifier: Apache-2.0
# What the tests of the command kt share; they read it with `.`.
#
# A test runs `kt ARGUMENT...`, which puts standard output into $out and standard error into $err,
# and says what must hold. It goes on after a failure and ends with `finish`.

set -u
: "${KT_TEST_BUILD:?is set by make check}" "${KT_TEST_SOURCE:?is set by make check}"
data=$KT_TEST_DATA/tiny-moe
trace=$data/trace.safetensors
umask 022
dir=$(mktemp -d "${TMPDIR:-/tmp}/kt-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM
out=$dir/out
err=$dir/err
n_failed=0
code=0

# No configuration of this machine: a test writes its own below $dir.
mkdir "$dir/shipped" "$dir/etc" "$dir/home"
KT_KERNEL_PLUGINCONFDIR=$dir/shipped
KT_KERNEL_SYSCONFDIR=$dir/etc
HOME=$dir/home
XDG_CONFIG_HOME=$dir/home/.config
export KT_KERNEL_PLUGINCONFDIR KT_KERNEL_SYSCONFDIR HOME XDG_CONFIG_HOME

kt_run()
{
    if [ -n "${EMULATOR:-}" ]; then
        # The program itself, not the script around it: libtool takes longer than kt.
        # shellcheck disable=SC2086 # an emulator comes with its arguments
        LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs $EMULATOR "$KT_TEST_BUILD/.libs/kt" "$@"
    else
        "$KT_TEST_BUILD/kt" "$@"
    fi
}

kt()
{
    command_line="kt $*"
    kt_run "$@" >"$out" 2>"$err"
    code=$?
    if [ -n "${EMULATOR:-}" ]; then # it has messages of its own
        sed -i '/^qemu-[a-z0-9_]*: warning: /d' "$err"
    fi
}

fail()
{
    n_failed=$((n_failed + 1))
    echo "FAILED: $command_line: $*"
    echo "  exit status $code; output:"
    sed 's/^/  | /' "$out" | head -n 40
    echo "  messages:"
    sed 's/^/  | /' "$err" | head -n 40
}

# The exit status of the last kt.
exits()
{
    [ "$code" -eq "$1" ] || fail "the exit status must be $1"
}

# A basic regular expression that a line of standard output, or error, holds.
says()
{
    grep -q -e "$1" "$out" || fail "the output must hold: $1"
}

says_not()
{
    ! grep -q -e "$1" "$out" || fail "the output must not hold: $1"
}

warns()
{
    grep -q -e "$1" "$err" || fail "the messages must hold: $1"
}

is_silent()
{
    [ ! -s "$err" ] || fail "there must be no message"
}

# Field $2 of the CSV row in $out whose first field is $1; no quoted field may stand before it.
field()
{
    awk -F, -v row="$1" -v name="$2" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        NR > 1 && $1 == row { print $column; exit }' "$out"
}

# Is number $1 $2 (<= or >=) number $3?
compares()
{
    awk -v a="$1" -v b="$3" -v how="$2" \
        'BEGIN { exit !(a != "" && a == a + 0 && (how == "<=" ? a <= b : a >= b)) }' ||
        fail "'$1' must be a number $2 $3"
}

# Puts plugin $1 and its drop-in where kt finds them; false if it was not built.
with_plugin()
{
    built=$KT_TEST_BUILD/.libs/kt_$1.so
    [ -f "$built" ] || return 1
    # A copy, because the build folder may be writable by a group, which kt refuses.
    mkdir -p "$dir/plugins"
    cp "$built" "$dir/plugins/kt_$1.so"
    chmod 755 "$dir/plugins/kt_$1.so"
    cp "$KT_TEST_SOURCE/plugins/$1/$1.ini" "$dir/shipped/$1.ini"
    KT_KERNEL_CORE_PLUGIN_PATH=$dir/plugins
    export KT_KERNEL_CORE_PLUGIN_PATH
}

finish()
{
    if [ "$n_failed" -gt 0 ]; then
        echo "$n_failed checks failed"
        exit 1
    fi
    exit 0
}

skip()
{
    echo "skipped: $*"
    exit 77
}
