# SPDX-License-Identifier: Apache-2.0
# For authors of kt-kernel backend plugins; installed with kt-kernel.

# KT_PLUGIN_INIT([MINIMUM-VERSION])
# Finds kt-kernel by pkg-config, after LT_INIT in configure.ac. Substitutes
#   KT_PLUGIN_CFLAGS   where <kt/plugin.h> is, and hidden visibility
#   KT_PLUGIN_LDFLAGS  exports kt_plugin_NAME only and leaves nothing undefined; write -module before it,
#                      a word that Automake wants to see itself
#   KT                 the command kt, if not given: of the installation that pkg-config found, else in PATH
#   KT_PLUGIN_ABI      the plugin ABI's major number, 1
#   pluginsdir         where kt_NAME.so goes      (override: ./configure pluginsdir=DIR)
#   pluginconfdir      where its NAME.ini goes    (override: ./configure pluginconfdir=DIR)
# A plugin is not linked to libktkernel: what it may call comes in struct kt_host.
AC_DEFUN([KT_PLUGIN_INIT],
[AC_REQUIRE([PKG_PROG_PKG_CONFIG])
PKG_CHECK_EXISTS([kt-kernel m4_ifval([$1], [>= $1])], [],
    [AC_MSG_ERROR([pkg-config finds no kt-kernel m4_ifval([$1], [>= $1 ])]dnl
[(a prefix of your own: PKG_CONFIG_PATH=PREFIX/lib/pkgconfig)])])
PKG_CHECK_VAR([KT_PLUGIN_INCLUDEDIR], [kt-kernel], [includedir])
PKG_CHECK_VAR([KT_PLUGIN_ABI], [kt-kernel], [pluginabi])
PKG_CHECK_VAR([pluginsdir], [kt-kernel], [pluginsdir])
PKG_CHECK_VAR([pluginconfdir], [kt-kernel], [pluginconfdir])
PKG_CHECK_VAR([KT_PLUGIN_BINDIR], [kt-kernel], [bindir])
AS_IF([test -z "$KT" && test -x "$KT_PLUGIN_BINDIR/kt"], [KT=$KT_PLUGIN_BINDIR/kt])
AC_CHECK_PROG([KT], [kt], [kt])
AC_SUBST([KT_PLUGIN_CFLAGS], ["-I$KT_PLUGIN_INCLUDEDIR -fvisibility=hidden"])
AC_SUBST([KT_PLUGIN_LDFLAGS], ["-avoid-version -shared -export-symbols-regex ^kt_plugin_ -Wl,-z,defs -Wl,-z,now"])
])
