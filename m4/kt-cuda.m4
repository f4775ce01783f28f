# SPDX-License-Identifier: Apache-2.0
# KT_CUDA
# The CUDA runtime's headers for C and its library, for make check-gpu and nothing else: --with-cuda=PREFIX, or
# where the compiler looks (Debian's nvidia-cuda-dev), or /usr/local/cuda. Folders of wheels will do, which have
# libcudart.so.12 without libcudart.so. Condition: HAVE_CUDA.
AC_DEFUN([KT_CUDA],
[AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=PREFIX],
        [the CUDA runtime that make check-gpu tests with @<:@that of the compiler, else /usr/local/cuda@:>@])],
    [], [with_cuda=auto])
AC_MSG_CHECKING([for the CUDA runtime])
AS_CASE([$with_cuda],
    [no], [kt_cuda_places=],
    [auto|yes], [kt_cuda_places="/usr /usr/local/cuda"],
    [/*], [kt_cuda_places=$with_cuda],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: a folder's absolute path is needed])])
kt_cuda=no
kt_saved_CPPFLAGS=$CPPFLAGS kt_saved_LIBS=$LIBS
for kt_place in $kt_cuda_places; do
    CUDA_CPPFLAGS="-isystem $kt_place/include" CUDA_LIBS=
    AS_IF([test $kt_place = /usr], [CUDA_CPPFLAGS= CUDA_LIBS=-lcudart])
    for kt_library in "$kt_place"/lib64/libcudart.so* "$kt_place"/lib/libcudart.so*; do
        AS_IF([test -z "$CUDA_LIBS" && test -f "$kt_library"],
            [CUDA_LIBS="$kt_library -Wl,-rpath,${kt_library%/*}"])
    done
    AS_IF([test $kt_cuda = no && test -n "$CUDA_LIBS"],
        [CPPFLAGS="$kt_saved_CPPFLAGS $CUDA_CPPFLAGS" LIBS="$CUDA_LIBS $kt_saved_LIBS"
        AC_LINK_IFELSE(
            [AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
                [[cudaGraphExec_t graph; return (int)cudaGraphInstantiateWithFlags(&graph, 0, 0);]])],
            [kt_cuda=$kt_place kt_cuda_cppflags=$CUDA_CPPFLAGS kt_cuda_libs=$CUDA_LIBS])])
done
CPPFLAGS=$kt_saved_CPPFLAGS LIBS=$kt_saved_LIBS
AC_MSG_RESULT([$kt_cuda])
AS_CASE([$with_cuda,$kt_cuda], [/*,no|yes,no],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: no cuda_runtime_api.h and libcudart of CUDA 11.4 or later are there dnl
(config.log says what the compiler said)])])
AC_SUBST([CUDA_CPPFLAGS], [$kt_cuda_cppflags])
AC_SUBST([CUDA_LIBS], [$kt_cuda_libs])
AM_CONDITIONAL([HAVE_CUDA], [test $kt_cuda != no])])
