# SPDX-License-Identifier: Apache-2.0
# What scripts share that run checkkernel on a plugin; they read it with `.`, say which, and run it with the
# arguments that they want.

# The plugin $1 as it was built.
native()
{
    plugin=$KT_TEST_BUILD/.libs/kt_$1.so
    emulated=
    if [ ! -e "$plugin" ]; then
        echo "SKIP: the backend $1 was not built"
        exit 77
    fi
}

# The plugin $1 with the levels above this CPU's emulated, beside its others. $same: levels whose machine code is
# that of the plugin as it was built, where they have run the same cases.
emulated()
{
    same=
    [ -n "${EMULATOR:-}${KT_TEST_QUICK:-}${KT_KERNEL_CPU_VARIANT:-}" ] ||
        [ "${KT_TEST_EMULATED_NEEDS:-}" = avx2 ] ||
        same='avx512 avx512_vnni avx512_vbmi avx512_bf16'
    plugin=$KT_TEST_BUILD/tests/checkkernel/emulated/.libs/kt_$1.so
    emulated=--emulated
    if [ ! -e "$plugin" ]; then
        echo "SKIP: SIMDe (Debian: libsimde-dev) or a compiler for AVX2 is missing, or $1 was not built"
        exit 77
    fi
    if [ -z "${EMULATOR:-}" ] && ! grep -qw "${KT_TEST_EMULATED_NEEDS:?}" /proc/cpuinfo; then
        echo "SKIP: emulated levels were built for a CPU with $KT_TEST_EMULATED_NEEDS"
        exit 77
    fi
}

# Ends the script where a check fails. Results are recorded in the build, a file for each kind of run; where
# KT_TEST_RECORDED names that folder of a build that has been checked, they are read instead. KT_TEST_SKIP names
# levels that are left out, KT_TEST_LEVEL the only one that is run.
run()
{
    kind=$(echo "${plugin##*/}$emulated $*" | sed 's/--cases [0-9]*//' | tr -sc 'A-Za-z0-9_\n' -)
    recorded=$KT_TEST_BUILD/tests/checkkernel/recorded
    if [ "${KT_TEST_RECORDED:-}" = "$recorded" ]; then
        set -- --known "$recorded/$kind" --same-code "$@"
    elif [ -n "${KT_TEST_RECORDED:-}" ]; then
        set -- --known "$KT_TEST_RECORDED/$kind" "$@"
    else
        mkdir -p "$recorded"
        set -- --record "$recorded/$kind" "$@"
    fi
    [ -z "${KT_TEST_SKIP:-}" ] || set -- --skip "$KT_TEST_SKIP" "$@"
    [ -z "${KT_TEST_LEVEL:-}" ] || set -- --level "$KT_TEST_LEVEL" "$@"
    # shellcheck disable=SC2086 # an emulator comes with its arguments
    "$KT_TEST_BUILD/libtool" --mode=execute ${EMULATOR:-} "$KT_TEST_BUILD/tests/checkkernel/checkkernel" \
        --plugin "$plugin" --seed "${KT_TEST_SEED:-20261121}" $emulated "$@" || {
        status=$?
        [ $status -ne 77 ] || [ -z "${KT_TEST_LEVEL:-}" ] || status=1 # it must be able to run
        exit $status
    }
}
