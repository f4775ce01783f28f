# SPDX-License-Identifier: Apache-2.0
# What configure.ac says in one row each: packages, warnings, sanitizers, ISA flags.

# KT_PACKAGE(VARIABLE, MODULE, DEBIAN-PACKAGE): a library that must be there.
AC_DEFUN([KT_PACKAGE],
[PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([pkg-config finds no $2: install it (Debian: apt-get install $3), or set PKG_CONFIG_PATH])])])

# KT_WARNINGS: WARNING_CFLAGS of the compiler in use; --enable-werror.
AC_DEFUN([KT_WARNINGS],
[AX_APPEND_COMPILE_FLAGS([-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes dnl
    -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat-security],
    [WARNING_CFLAGS], [-Werror])
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [warnings are errors (developers, CI)])])
AS_IF([test "x$enable_werror" = xyes], [WARNING_CFLAGS="$WARNING_CFLAGS -Werror"])
AC_SUBST([WARNING_CFLAGS])
# Every compiler then rounds alike: a*b+c is one operation only where a kernel says so.
AX_CHECK_COMPILE_FLAG([-ffp-contract=off], [KT_FP_CFLAGS=-ffp-contract=off], [KT_FP_CFLAGS=], [-Werror])
AC_SUBST([KT_FP_CFLAGS])
# gcc ends functions that use AVX with vzeroupper only if it has this, and at -O1 it has not. Without, scalar code
# takes up to 28 times as long after them on Intel's CPUs: each of its SSE instructions merges with the upper halves.
KT_UPPER_CFLAGS=
AS_IF([test $host_cpu = x86_64],
    [AX_CHECK_COMPILE_FLAG([-fexpensive-optimizations], [KT_UPPER_CFLAGS=-fexpensive-optimizations], [], [-Werror])])
AC_SUBST([KT_UPPER_CFLAGS])
# Plugins are bound when they are loaded, so what their kernels call of libm needs no detour either.
AX_CHECK_COMPILE_FLAG([-fno-plt], [KT_CALL_CFLAGS=-fno-plt], [KT_CALL_CFLAGS=], [-Werror])
AC_SUBST([KT_CALL_CFLAGS])
# Calls inside the library need no detour by the dynamic linker.
AX_CHECK_LINK_FLAG([-Wl,-Bsymbolic-functions], [KT_BIND_LDFLAGS=-Wl,-Bsymbolic-functions], [KT_BIND_LDFLAGS=])
AC_SUBST([KT_BIND_LDFLAGS])])

# KT_SANITIZERS: --enable-sanitizers=address,undefined or =thread.
AC_DEFUN([KT_SANITIZERS],
[AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [build with -fsanitize=LIST, e.g. address,undefined or thread])],
    [], [enable_sanitizers=no])
AS_CASE([$enable_sanitizers],
    [no], [kt_sanitizers=none],
    [yes], [kt_sanitizers=address,undefined],
    [kt_sanitizers=$enable_sanitizers])
SANITIZER_CFLAGS=
AS_IF([test $kt_sanitizers != none],
    [SANITIZER_CFLAGS="-fsanitize=$kt_sanitizers -fno-omit-frame-pointer"
    AS_CASE([$kt_sanitizers], [*undefined*], [SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fno-sanitize-recover=undefined"])
    AX_CHECK_LINK_FLAG([$SANITIZER_CFLAGS], [],
        [AC_MSG_ERROR([$CC cannot link with -fsanitize=$kt_sanitizers])])])
AC_SUBST([SANITIZER_CFLAGS])
AM_CONDITIONAL([SANITIZERS], [test $kt_sanitizers != none])])

# KT_COVERAGE: COVERAGE_CFLAGS of everything but plugins, whose kernels would take hours, and tests.
AC_DEFUN([KT_COVERAGE],
[AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage], [count by gcov which lines and branches tests reach])])
AS_IF([test "x$enable_coverage" = xyes], [COVERAGE_CFLAGS='-DKT_COVERAGE --coverage -fprofile-update=prefer-atomic -fprofile-exclude-files=$(srcdir)/tests/.*'])
AC_SUBST([COVERAGE_CFLAGS])])

# KT_HARDENING: HARDEN_CFLAGS of everything but plugins, whose kernels have arrays that a stack protector would
# guard at each call; BRANCH_CFLAGS and HARDEN_LDFLAGS of everything; PIE_LDFLAGS of programs. Not with sanitizers.
AC_DEFUN([KT_HARDENING],
[AC_ARG_ENABLE([hardening],
    [AS_HELP_STRING([--disable-hardening], [no stack protector, _FORTIFY_SOURCE, branch protection, full RELRO])])
HARDEN_CFLAGS= BRANCH_CFLAGS= HARDEN_LDFLAGS= PIE_LDFLAGS=
AS_IF([test "x$enable_hardening" != xno && test $kt_sanitizers = none],
    [AX_APPEND_COMPILE_FLAGS([-fstack-protector-strong -fstack-clash-protection], [HARDEN_CFLAGS], [-Werror])
    AS_CASE([$host_cpu],
        [x86_64], [AX_APPEND_COMPILE_FLAGS([-fcf-protection], [BRANCH_CFLAGS], [-Werror])],
        [aarch64], [AX_APPEND_COMPILE_FLAGS([-mbranch-protection=standard], [BRANCH_CFLAGS], [-Werror])])
    # A distribution's flags, or a build without -O, have a level of their own.
    m4_define([kt_fortify], [-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=])
    AS_CASE(["$CPPFLAGS $CFLAGS"], [*_FORTIFY_SOURCE*], [],
        [AX_CHECK_COMPILE_FLAG(kt_fortify[3], [HARDEN_CFLAGS="$HARDEN_CFLAGS kt_fortify[]3"],
            [AX_CHECK_COMPILE_FLAG(kt_fortify[2], [HARDEN_CFLAGS="$HARDEN_CFLAGS kt_fortify[]2"], [], [-Werror],
                [AC_LANG_PROGRAM([[#include <stdio.h>]])])],
            [-Werror], [AC_LANG_PROGRAM([[#include <stdio.h>]])])])
    AX_APPEND_LINK_FLAGS([-Wl,-z,relro -Wl,-z,now], [HARDEN_LDFLAGS])
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifndef __PIE__
#error
#endif]])], [],
        [HARDEN_CFLAGS="$HARDEN_CFLAGS -fPIE" PIE_LDFLAGS=-pie])])
AM_CONDITIONAL([HARDENED], [test "x$HARDEN_LDFLAGS" != x])
AC_SUBST([HARDEN_CFLAGS])
AC_SUBST([BRANCH_CFLAGS])
AC_SUBST([HARDEN_LDFLAGS])
AC_SUBST([PIE_LDFLAGS])])

# KT_ISA(NAME, CPU, FLAGS): HAVE_<NAME> and KT_CFLAGS_<NAME> where the host is such a CPU and the compiler
# knows all the flags. Only the convenience library of a level's kernel uses them, nothing else.
m4_define([KT_ISA],
[AS_IF([test $host_cpu = $2],
    [AX_CHECK_COMPILE_FLAG([$3], [kt_isa_$1=yes], [kt_isa_$1=no], [-Werror])],
    [kt_isa_$1=no])
AS_IF([test $kt_isa_$1 = yes], [AS_VAR_APPEND([kt_isa_summary], [" m4_tolower([$1])"])])
AC_SUBST([KT_CFLAGS_$1], ["$3"])
AM_CONDITIONAL([HAVE_$1], [test $kt_isa_$1 = yes])])

AC_DEFUN([KT_ISA_FLAGS],
[AM_CONDITIONAL([X86_64], [test $host_cpu = x86_64])
AM_CONDITIONAL([AARCH64], [test $host_cpu = aarch64])
kt_isa_summary=
m4_pushdef([avx2], [-mavx2 -mfma -mf16c])
m4_pushdef([avx512], [-mavx512f -mavx512bw -mavx512vl -mavx512dq])
KT_ISA([AVX2], [x86_64], avx2)
KT_ISA([AVX_VNNI], [x86_64], avx2 -mavxvnni)
KT_ISA([AVX512], [x86_64], avx2 avx512)
KT_ISA([AVX512_VNNI], [x86_64], avx2 avx512 -mavx512vnni)
KT_ISA([AVX512_VBMI], [x86_64], avx2 avx512 -mavx512vnni -mavx512vbmi)
KT_ISA([AVX512_BF16], [x86_64], avx2 avx512 -mavx512vnni -mavx512bf16)
KT_ISA([AMX], [x86_64], avx2 avx512 -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)
m4_popdef([avx2])
m4_popdef([avx512])
KT_ISA([DOTPROD], [aarch64], [-march=armv8.2-a+dotprod])
KT_ISA([I8MM], [aarch64], [-march=armv8.2-a+dotprod+i8mm])
KT_ISA([SVE256], [aarch64], [-march=armv8.2-a+sve -msve-vector-bits=256])
KT_ISA([SVE512], [aarch64], [-march=armv8.2-a+sve -msve-vector-bits=512])
KT_ISA([ARM_BF16], [aarch64], [-march=armv8.2-a+dotprod+i8mm+bf16])
# gcc for ARM moves loads up before it gives out registers, and kernels then have too few of them.
AX_CHECK_COMPILE_FLAG([-fno-schedule-insns], [KT_CFLAGS_IN_ORDER=-fno-schedule-insns],
    [KT_CFLAGS_IN_ORDER=], [-Werror])
AC_SUBST([KT_CFLAGS_IN_ORDER])
AS_IF([test "x$kt_isa_summary" = x], [kt_isa_summary=" none beyond the baseline"])])

# KT_EMULATION: which levels tests emulate, EMULATES_AVX512, EMULATES_AVX_VNNI and $kt_emulated for the summary. Where this CPU has
# all that level amx needs but its tiles, only these are modeled, and the rest of its code runs as it is: SIMDe
# takes four times as long.
AC_DEFUN([KT_EMULATION], [
AC_ARG_ENABLE([emulation],
    [AS_HELP_STRING([--enable-emulation=LEVELS], [kernels that tests emulate: all above AVX2, or (missing) those that this CPU lacks @<:@missing@:>@])],
    [], [enable_emulation=missing])
AS_CASE([$enable_emulation], [all|missing], [],
    [AC_MSG_ERROR([--enable-emulation=$enable_emulation: all or missing is needed])])
kt_emulated="avx512 amx"
AS_IF([test $enable_emulation = missing && test $cross_compiling = no &&
       test $kt_isa_AVX512_VBMI$kt_isa_AVX512_BF16 = yesyes],
    [kt_emulated=amx
     for kt_flag in avx512f avx512bw avx512dq avx512vl avx512_vnni avx512vbmi avx512_bf16; do
         grep -qw $kt_flag /proc/cpuinfo 2>/dev/null || kt_emulated="avx512 amx"
     done])
AM_CONDITIONAL([EMULATES_AVX512], [test "$kt_emulated" != amx])
AS_IF([test $enable_emulation = missing && test $cross_compiling = no && test $kt_isa_AVX_VNNI = yes &&
       grep -qw avx_vnni /proc/cpuinfo 2>/dev/null], [], [kt_emulated="avx_vnni $kt_emulated"])
AM_CONDITIONAL([EMULATES_AVX_VNNI], [case $kt_emulated in avx_vnni*) true ;; *) false ;; esac])
])
