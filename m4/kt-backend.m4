# SPDX-License-Identifier: Apache-2.0
# The backends: --enable-NAME=auto|yes|no each, --with-plugins=LIST|all|auto for all of them.

# KT_BACKENDS_INIT: before the first row.
AC_DEFUN([KT_BACKENDS_INIT],
[AC_ARG_WITH([plugins],
    [AS_HELP_STRING([--with-plugins=LIST], [backends to build: auto (all that can be built), all, none, or names
        separated by commas or blanks; --enable-NAME of a backend goes first @<:@auto@:>@])],
    [], [with_plugins=auto])
AS_CASE([$with_plugins], [yes], [with_plugins=all], [no], [with_plugins=none])
with_plugins=$(AS_ECHO(["$with_plugins"]) | tr -s '[[:blank:]]' ',')
kt_backend_names=
kt_backend_summary=])

# KT_BACKEND(NAME, DESCRIPTION, [REQUIREMENTS]): a row.
# REQUIREMENTS are shell commands that set kt_missing to what stands in the way, if anything does.
# The row gives the Automake conditional BACKEND_<NAME>; plugins/NAME/NAME.am builds under it.
AC_DEFUN([KT_BACKEND],
[AC_ARG_ENABLE(m4_translit([$1], [_], [-]),
    [AS_HELP_STRING([--enable-]m4_translit([$1], [_], [-])[=auto|yes|no], [backend: $2 @<:@auto@:>@])],
    [kt_wish=$enable_$1 kt_wisher="--enable-m4_translit([$1], [_], [-])=$enable_$1"],
    [kt_wisher="--with-plugins=$with_plugins"
    AS_CASE([$with_plugins],
        [auto], [kt_wish=auto], [all], [kt_wish=yes], [none], [kt_wish=no],
        [AS_CASE([,$with_plugins,], [*,$1,*], [kt_wish=yes], [kt_wish=no])])])
AS_CASE([$kt_wish], [auto|yes|no], [],
    [AC_MSG_ERROR([$kt_wisher: say auto, yes or no])])
AC_MSG_CHECKING([whether to build the backend $1])
kt_missing=
AS_IF([test $kt_wish != no], [m4_default([$3], [:])])
AS_IF([test $kt_wish = no],
        [kt_build=no kt_why="$kt_wisher"],
    [test "x$kt_missing" = x],
        [kt_build=yes kt_why="$kt_wisher"],
    [test $kt_wish = auto],
        [kt_build=no kt_why="$kt_missing"],
    [AC_MSG_RESULT([no])
    AC_MSG_ERROR([$kt_wisher asks for the backend $1, but $kt_missing])])
AC_MSG_RESULT([$kt_build])
AM_CONDITIONAL([BACKEND_]m4_toupper([$1]), [test $kt_build = yes])
AS_VAR_APPEND([kt_backend_names], [" $1"])
AS_VAR_APPEND([kt_backend_summary], ["$(printf '  %-12s %-6s %s' '$1' $kt_build "$kt_why")
"])])

# KT_BACKENDS_OF_THE_TREE: a row for each backend that plugins/plugins.am includes, of its plugins/NAME/NAME.info.
AC_DEFUN([KT_BACKENDS_OF_THE_TREE],
[m4_esyscmd([awk -v as=configure -f plugins/backends.awk])
m4_if(m4_sysval, [0], [], [m4_fatal([plugins/backends.awk failed])])])

# KT_BACKENDS_DONE: after the last row; a name in --with-plugins that no row has is an error.
AC_DEFUN([KT_BACKENDS_DONE],
[AS_CASE([$with_plugins], [auto|all|none], [],
    [for kt_name in $(AS_ECHO(["$with_plugins"]) | tr ',' ' '); do
        AS_CASE([" $kt_backend_names "], [*" $kt_name "*], [],
            [AC_MSG_ERROR([--with-plugins names '$kt_name'; there are:$kt_backend_names])])
    done])])
