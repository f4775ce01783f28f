# SPDX-License-Identifier: Apache-2.0
# KT_LIBDIR
# Does the dynamic linker look into libdir by itself, by libtool's knowledge? Then nothing that is installed has
# a RUNPATH, and make install tells the linker. Else programs carry libdir: the command by libtool, others by
# KT_RPATH, which kt-kernel.pc hands on. --disable-rpath: none do. Condition: LIBDIR_KNOWN.
AC_DEFUN([KT_LIBDIR],
[AC_REQUIRE([LT_INIT])
AC_ARG_ENABLE([rpath],
    [AS_HELP_STRING([--disable-rpath], [no RUNPATH, even where the dynamic linker does not know libdir])],
    [], [enable_rpath=yes])
AC_MSG_CHECKING([whether the dynamic linker knows libdir])
kt_prefix=$prefix kt_exec_prefix=$exec_prefix kt_known=no
test "x$prefix" != xNONE || prefix=$ac_default_prefix
test "x$exec_prefix" != xNONE || exec_prefix=$prefix
eval kt_libdir="$libdir"
eval kt_libdir="$kt_libdir"
prefix=$kt_prefix exec_prefix=$kt_exec_prefix
for kt_folder in $sys_lib_dlsearch_path_spec; do
    AS_IF([test "$kt_folder" = "$kt_libdir"], [kt_known=yes])
done
AC_MSG_RESULT([$kt_known])
AM_CONDITIONAL([LIBDIR_KNOWN], [test $kt_known = yes])
AC_SUBST([KT_RPATH], [' -Wl,-rpath,${libdir}'])
AS_IF([test $kt_known = yes || test "$enable_rpath" = no], [KT_RPATH=])
# Of libtool's own, as AC_DISABLE_STATIC is: it has no option for it.
AS_IF([test "$enable_rpath" = no], [hardcode_libdir_flag_spec= runpath_var=])
])
