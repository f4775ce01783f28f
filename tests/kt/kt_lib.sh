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
XDG_DATA_HOME=$dir/home/.local/share
export KT_KERNEL_PLUGINCONFDIR KT_KERNEL_SYSCONFDIR HOME XDG_CONFIG_HOME XDG_DATA_HOME

# The program itself, not the script around it: that takes longer than kt does. Only a static build has no other.
kt_program=$KT_TEST_BUILD/.libs/kt
[ -x "$kt_program" ] || kt_program=$KT_TEST_BUILD/kt
kt_run()
{
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ${EMULATOR:-} "$kt_program" "$@"
}

# finds_faults PLUGIN, with a row on standard input for each fault: its name, the check of kt plugin check that must
# be the first to fail, what it says.
finds_faults()
{
    while read -r fault check text; do
        [ -n "$fault" ] || continue
        KT_TEST_FAULT=$fault
        export KT_TEST_FAULT
        kt plugin check --quick --cases 1 "$1"
        command_line="$command_line, $fault"
        exits 1
        [ "$(awk '$2 == "failed" || $3 == "failed" { print $1; exit }' "$out")" = "$check" ] ||
            fail "the check $check must be the first to fail"
        says "failed .*\\($text\\)"
    done
}

# kt, again while a process that was killed has not quite ended: `timeout -s KILL` does not wait for it.
kt_after_kill()
{
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        kt "$@"
        grep -q 'another kt convert is writing' "$err" || break
    done
}

# Compiles what makes calls fail (campaign/shim.c) as $SHIM.
build_shim()
{
    SHIM=$dir/shim.so
    export SHIM
    attacks=$KT_TEST_SOURCE/tests/campaign
    "${KT_TEST_CC:-cc}" -std=gnu11 -O1 -shared -fPIC -I"$KT_TEST_SOURCE" -o "$SHIM" "$attacks/shim.c" "$attacks/places.c" \
        "$attacks/refuse.c" -ldl >"$out" 2>"$err" || { fail "tests/campaign/shim.c does not compile"; finish; }
}

# In a subshell, for a program that is killed or may write little: half a file of counts (configure
# --enable-coverage) would spoil those of all others.
uncounted()
{
    GCOV_PREFIX=$dir/counts
    export GCOV_PREFIX
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
    echo "FAILED: ${command_line:-}: $*"
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

warns_not()
{
    ! grep -q -e "$1" "$err" || fail "the messages must not hold: $1"
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

# A safetensors file $1 with the header $2, and the data that standard input gives.
write_tensors()
{
    {
        # shellcheck disable=SC2059 # the length's bytes are a format
        printf "$(printf '\\%o\\%o' $((${#2} % 256)) $((${#2} / 256)))\\0\\0\\0\\0\\0\\0%s" "$2"
        cat
    } >"$1"
}

# Whole numbers below 256 as I64, or their first byte as U8.
i64()
{
    for number; do
        # shellcheck disable=SC2059
        printf "\\$(printf %o "$number")\\0\\0\\0\\0\\0\\0\\0"
    done
}
u8()
{
    for number; do
        # shellcheck disable=SC2059
        printf "\\$(printf %o "$number")"
    done
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

# The levels of backend $1 that this CPU has, in $levels; $2: a model that it takes.
find_levels()
{
    levels=
    for level in amx avx512_bf16 avx512 avx2 arm_bf16 neon scalar; do
        # emulated, the scalar level takes minutes, and checkkernel runs it
        [ $level = scalar ] && [ -n "${EMULATOR:-}" ] && [ -n "$levels" ] && continue
        kt explain --model "$2" --set "plugin.$1.level=$level" --format csv
        [ "$(field 0 level)" = $level ] && levels="$levels $level"
    done
    [ -n "$levels" ] || fail "no level can run"
}

# A trained layer on every level, with any threads and from a store. $1 backend, $2 folder, $3 type. Its error is compared with the reference, and with what these very weights gave in
# float64: 2^-9 for rounding activations, and weights of many rows; y in bfloat16 adds another 2^-9.
runs_trained()
{
    model=$data/$2-l0
    store=$dir/store
    kt explain --model "$model" --format csv
    exits 0
    [ "$(field 0 backend)" = "$1" ] || fail "$1 must be chosen"
    for level in $levels; do
        for y in f32 bf16; do
            kt forward --model "$model" --input "$trace" --tolerance 4e-3 --set "plugin.$1.level=$level" \
                --set "plugin.$1.y=$y" --expected "$data/$2-l0-output.safetensors" \
                --recorded-tolerance 4e-3 --format csv
            exits 0
            is_silent
            [ "$(field 0 backend),$(field 0 level)" = "$1,$level" ] || fail "it runs on $level"
            [ "$(field 0 types)" = "$3" ] || fail "its weights are $3"
        done
    done
    kt forward --model "$model" --input "$trace" --output "$dir/a.safetensors"
    exits 0
    kt forward --model "$model" --input "$trace" --threads 1 --io read --output "$dir/b.safetensors"
    exits 0
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "one thread gives another output"

    # A store has the same weights, on one NUMA node or cut for two.
    rm -rf "$store"
    kt convert --input "$model" --output "$store" --method "$1"
    exits 0
    is_silent
    kt verify "$store"
    exits 0
    says "^ *0  $1 .*$1-[0-9]* .* ok$"
    kt forward --model "$store" --input "$trace" --output "$dir/b.safetensors"
    exits 0
    cmp "$dir/a.safetensors" "$dir/b.safetensors" >/dev/null || fail "the store gives another output"
    HWLOC_SYNTHETIC='numa:2 core:1 pu:1'
    export HWLOC_SYNTHETIC
    for model in "$store" "$model"; do
        kt forward --model "$model" --input "$trace" --tolerance 4e-3 \
            --expected "$data/$2-l0-output.safetensors" --recorded-tolerance 4e-3
        exits 0
        says '^NUMA nodes: *2'
    done
    unset HWLOC_SYNTHETIC
}

# The rows of tools/kt/base/verbs.h, one a line: VERB PROGRAM...: SUMMARY
verb_rows()
{
    sed -n 's/^    VERB(\([a-z]*\), \([A-Z_ |]*\), "\([^"]*\)").*/\1 \2: \3/p' "$KT_TEST_SOURCE/tools/kt/base/verbs.h"
}

# The verbs that kt runs itself, in $own_verbs, and those of kt-engine and kt-serve, in $engine_verbs; none where
# they cannot run, and then says why.
find_verbs()
{
    own_verbs=$(verb_rows | sed -n 's/^\([a-z]*\) KT_IN_KT.*/\1/p')
    engine_verbs=$(verb_rows | sed -n 's/^\([a-z]*\) KT_IN_[ES].*/\1/p')
    [ -n "$own_verbs" ] && [ -n "$engine_verbs" ] || fail "tools/kt/base/verbs.h must hold the verbs"
    why=
    [ -x "$(dirname "$kt_program")/kt-engine" ] || why="kt-engine was not built"
    [ -z "${EMULATOR:-}" ] || why="a program that is emulated cannot execute another one" # it would run here
    if [ -z "$why" ]; then
        [ -x "$(dirname "$kt_program")/kt-serve" ] || engine_verbs=$(verb_rows | sed -n 's/^\([a-z]*\) KT_IN_E.*/\1/p')
        return 0
    fi
    # shellcheck disable=SC2086 # on one line
    echo "not run: kt" $engine_verbs "and bench --tokenize: $why"
    engine_verbs=
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
    echo "SKIP: $*"
    exit 77
}
