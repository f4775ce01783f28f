#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is built is hardened: programs run at any address, nothing of the linker's can be written to, buffers and
# return addresses are looked at. Plugins have the last of these only by the CPU.
set -eu
build=${KT_TEST_BUILD:?run by make check}
grep -q "^S\[\"HARDENED_TRUE\"\]=\"\"" "$build/config.status" ||
    { echo "SKIP: configured without hardening"; exit 77; }
read_elf=${READELF:-readelf} failed=0
fail() { echo "FAIL: $*"; failed=1; }
flags=$(sed -n 's/^HARDEN_CFLAGS = //p; s/^BRANCH_CFLAGS = //p' "$build/Makefile")

endbr=$(printf '\363\017\036\372')

# linked FILE N - what the linker does; and branches may land on ENDBR64 only, of which there are N or more.
linked()
{
    "$read_elf" -lW "$1" | grep -q GNU_RELRO || fail "$1: no RELRO"
    "$read_elf" -dW "$1" | grep -Eq 'BIND_NOW|Flags:.* NOW' || fail "$1: symbols are bound lazily, so RELRO is partial"
    ! "$read_elf" -lW "$1" | grep -E 'GNU_STACK.* RWE' || fail "$1: executable stack"
    # The linker's own mark says nothing where the C library's start files have none.
    case $flags in *-fcf-protection*)
        landings=$(LC_ALL=C grep -aoF "$endbr" "$1" | wc -l)
        [ "$landings" -ge "$2" ] || fail "$1: $landings ENDBR64, $2 at least were expected: no -fcf-protection" ;;
    esac
}
# guarded FILE - what the compiler adds.
guarded()
{
    symbols=$("${NM:-nm}" -D --undefined-only "$1")
    case $flags in *-fstack-protector-strong*)
        case $symbols in *__stack_chk_fail*) ;; *) fail "$1: no stack protector" ;; esac ;;
    esac
    case $flags in *_FORTIFY_SOURCE=*)
        case $symbols in *printf_chk*) ;; *) fail "$1: no _FORTIFY_SOURCE" ;; esac ;;
    esac
}
n=0
for program in kt kt-engine kt-serve; do
    file=$build/.libs/$program
    [ -f "$file" ] || continue
    n=$((n + 1))
    linked "$file" 100
    guarded "$file"
    "$read_elf" -dW "$file" | grep -q 'Flags:.* PIE' || fail "$file: not position-independent"
done
for library in libktkernel libktengine; do
    [ -f "$build/.libs/$library.so" ] || continue
    n=$((n + 1))
    linked "$build/.libs/$library.so" 100
    guarded "$build/.libs/$library.so"
done
for module in ${KT_TEST_PLUGINS:-}; do
    name=${module##*/} folder=$build/
    case $module in */*) folder=$build/${module%/*}/ ;; esac
    linked "$folder.libs/${name%.la}.so" 8
    n=$((n + 1))
done
[ $n -ge 2 ] || fail "only $n files were found"
[ $failed -ne 0 ] || echo "$n files are hardened"
exit $failed
