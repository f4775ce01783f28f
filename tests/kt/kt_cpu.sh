#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# This CPU, also an emulated one: it has what kt says and nothing else, and each backend runs what it can, or
# says what is missing.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
unset KT_KERNEL_CPU_VARIANT # what the CPU itself has

# Instructions of what kt found run; others end the program, so what runs here was made for this CPU.
kt doctor --format csv
exits 0
features=" $(sed -n 's/^cpu features,ok,\([^,]*\).*/\1/p' "$out") "
grep -q '^cpu features,ok,' "$out" || fail "it must name the CPU's features"
# shellcheck disable=SC2086 # an emulator comes with its arguments
${EMULATOR:-} "$KT_TEST_BUILD/tests/kt/beyond" 2>"$dir/usage"
known=$(sed -n 's/^usage: .*one of//p' "$dir/usage")
[ -n "$known" ] || skip "no instruction of this architecture is known"
for feature in $known; do
    command_line="beyond $feature"
    # shellcheck disable=SC2086
    { (ulimit -c 0; exec ${EMULATOR:-} "$KT_TEST_BUILD/tests/kt/beyond" "$feature") >"$out"; } 2>"$err"
    code=$?
    case $features in
    *" $feature "*) exits 0 ;;
    *) exits 132 ;; # SIGILL
    esac
done

# Every backend computes what the reference does, and a level that needs more says what is missing.
backends=
for plugin in ${KT_TEST_PLUGINS:?is set by make check}; do
    name=${plugin#kt_} name=${name%.la}
    with_plugin "$name" && backends="$backends $name"
done
[ -n "$backends" ] || finish
case ${EMULATOR:-},$features in
,* | *,'  ') # elsewhere checkkernel runs it all; emulated, these take a minute
    kt doctor --format csv
    exits 0
    for name in $backends; do
        says "^self-test $name,ok,"
    done ;;
esac
kt backends --format csv
cp "$out" "$dir/backends"
for level in $(for name in $backends; do field "$name" levels; done | tr ' ' '\n' | sort -u); do
    set --
    for name in $backends; do
        out=$dir/backends
        case " $(field "$name" levels) " in
        *" $level "*) set -- "$@" "$name" ;;
        esac
        out=$dir/out
    done
    # shellcheck disable=SC2046 # an argument for each backend
    kt backends --format csv $(for name; do echo "--set=plugin.$name.level=$level"; done)
    exits 0
    for name; do
        [ "$(field "$name" state),$(field "$name" level)" != "loaded,$level" ] || continue
        says "^$name,refused,.*level = $level[ :]"
        for missing in $(sed -n "s/^$name,refused,.*level = $level needs \(.*\), which this CPU lacks.*/\1/p" "$out"); do
            case $features in
            *" $missing "*) fail "the CPU has $missing" ;;
            esac
        done
    done
done
finish
