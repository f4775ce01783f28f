#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make installcheck: a third party's day. Writes a plugin project by kt plugin new, builds it and README's C
# program against the installed package, checks the plugin, enables it by its INI and runs a layer through it.
# Where this build is installed under its prefix, that is used, and left as it was: the command, a program and
# Python run without LD_LIBRARY_PATH, and the steps that kt plugin new prints work as printed. Else a staged copy.
set -eu
source=${KT_TEST_SOURCE:?run by make installcheck} build=${KT_TEST_BUILD:?}
prefix=$1 bindir=$2 libdir=$3 datadir=$4 pluginsdir=$5 pluginconfdir=$6 pythondir=$7 libexecdir=$8
make=${MAKE:-make} model=${KT_TEST_DATA:?}/tiny-moe
for tool in autoreconf libtoolize; do
    command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 0; }
done

umask 022
work=$(mktemp -d)
finish() {
    [ ! -f "$work/plugin/Makefile" ] || $make -C "$work/plugin" uninstall >/dev/null 2>&1 || :
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
# step WORDS COMMAND...: quiet unless it fails
step() {
    echo "installcheck: $1"
    shift
    "$@" >"$work/log" 2>&1 || { cat "$work/log"; echo "installcheck: FAILED: $*"; exit 1; }
}

if cmp -s "$build/.libs/libktkernel.so.0" "$libdir/libktkernel.so.0" && [ -w "$pluginsdir" ]; then
    stage=
    pkgconfig=$libdir/pkgconfig
    unset KT_KERNEL_PLUGINCONFDIR KT_KERNEL_SYSCONFDIR LD_LIBRARY_PATH
    echo "installcheck: against the installation in $prefix"
else
    stage=$work/stage
    pkgconfig=$work/pkgconfig
    step "staging" $make -C "$build" install DESTDIR="$stage"
    mkdir "$pkgconfig" # the staged package's .pc, with the stage before each absolute path
    sed "s|=/|=$stage/|" "$stage$libdir/pkgconfig/kt-kernel.pc" >"$pkgconfig/kt-kernel.pc"
    # and the paths that the library was compiled with
    KT_KERNEL_PLUGINCONFDIR=$stage$pluginconfdir KT_KERNEL_CORE_PLUGIN_PATH=$stage$pluginsdir
    LD_LIBRARY_PATH=$stage$libdir
    export KT_KERNEL_PLUGINCONFDIR KT_KERNEL_CORE_PLUGIN_PATH LD_LIBRARY_PATH
fi
PKG_CONFIG_PATH=$pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH

mkdir -p "$stage$pluginsdir" # a build without plugins installs none
found=$(find "$stage$pluginsdir" ! -type d ! -name 'kt_*.so')
[ -z "$found" ] || { echo "installcheck: FAILED: no plugin, in the plugin folder: $found"; exit 1; }
for file in "$stage$bindir/kt" "$stage$libdir/libktkernel.so.0" "$stage$libdir/libktengine.so.0" \
    "$stage$libexecdir/kt-engine" "$stage$libexecdir/kt-serve" "$stage$pluginsdir"/kt_*.so; do
    [ -f "$file" ] || continue # a build with --disable-engine
    found=$("${READELF:-readelf}" -dW "$file" | grep -E 'RPATH|RUNPATH') || continue
    # A library that needs another one of ours has it too: a program's is not for what its libraries need.
    case $file,$found in
    */bin/kt,*"RUNPATH"*"[$libdir]" | */kt-engine,*"RUNPATH"*"[$libdir]" | */kt-serve,*"RUNPATH"*"[$libdir]" | \
        */libktengine.so.0,*"RUNPATH"*"[$libdir]")
        continue
        ;;
    esac
    echo "installcheck: FAILED: $file has $found"
    exit 1
done

unset MAKEFLAGS MFLAGS # TESTS=, say, is for our tests, not for the project's
kt() { ${EMULATOR:-} "$stage$bindir/kt" "$@"; }
echo "installcheck: a plugin project of its own"
step "  kt plugin new" kt plugin new example --dir "$work/plugin"
steps=$(sed -n 's/^    \(cd .*\)/\1/p' "$work/log")
if [ -z "$stage${EMULATOR:-}" ]; then
    # With nothing of this script's environment.
    step "  the steps that it printed" env -i PATH="$PATH" HOME="$work" sh -ec "$steps"
    step "  make distclean" $make -C "$work/plugin" distclean
fi
cd "$work/plugin"
step "  autoreconf" autoreconf -fi -I "$stage$datadir/aclocal"
step "  configure" ./configure CC="$CC" --prefix="$stage$prefix" --libdir="$stage$libdir" \
    KT="${EMULATOR:+$EMULATOR }$stage$bindir/kt"
step "  make" $make CFLAGS='-g -O2 -Wall -Wextra -Werror'
step "  make check" $make check
step "  make install" $make install
cd "$work"
[ -f "$stage$pluginsdir/kt_example.so" ] && [ -f "$stage$pluginconfdir/example.ini" ] ||
    { echo "installcheck: FAILED: the plugin did not go where kt-kernel.pc says"; exit 1; }

step "kt backends" kt backends
grep -qE '^example +loaded' "$work/log" ||
    { cat "$work/log"; echo "installcheck: FAILED: the plugin is not loaded"; exit 1; }
if [ -f "$stage$libexecdir/kt-engine" ] && [ -z "${EMULATOR:-}" ]; then
    step "kt tokenize" kt tokenize "$model/tiny-moe-q4_k_m.gguf" 'To be'
    [ "$(cat "$work/log")" = '398 304' ] || { cat "$work/log"; echo "installcheck: FAILED: kt tokenize"; exit 1; }
fi
if [ -f "$stage$libexecdir/kt-serve" ] && [ -z "${EMULATOR:-}" ]; then
    step "kt run" kt run "$model/tiny-moe-q4_k_m.gguf" --dry-run
fi
step "kt version" kt version --format json
grep -q "\"prefix\": \"$stage$prefix\"" "$work/log" && { [ -n "$stage" ] || [ ! -d "$pythondir/kt_kernel" ] ||
    grep -q "\"python_package\": \"$pythondir/kt_kernel\"" "$work/log"; } ||
    { cat "$work/log"; echo "installcheck: FAILED: it does not say where it is installed"; exit 1; }
step "kt plugin check" kt plugin check --cases 1 "$stage$pluginsdir/kt_example.so" \
    --config "$stage$pluginconfdir/example.ini"
grep -q '^speed .* of its limit' "$work/log" ||
    { cat "$work/log"; echo "installcheck: FAILED: its speed was not measured"; exit 1; }
for layer in 0 3; do
    step "layer $layer through it, checked" kt forward --model "$model/tiny-moe-bf16-l0-l3.gguf" \
        --layer $layer --input "$model/trace.safetensors" --backend example --check
    grep -q example "$work/log" ||
        { cat "$work/log"; echo "installcheck: FAILED: another backend ran"; exit 1; }
done

sed -n '/^\/\* embed\.c/,/^}$/p' "$source/README.md" >"$work/embed.c"
# shellcheck disable=SC2086 # CC may be several words
step "README's C program" $CC -Wall -Wextra -Werror -o "$work/embed" "$work/embed.c" \
    $(pkg-config --cflags --libs kt-kernel)
step "  runs" ${EMULATOR:-} "$work/embed" "$model/tiny-moe-q4_k_m.gguf"
cat "$work/log"
if [ -z "$stage${EMULATOR:-}" ] && [ -d "$pythondir/kt_kernel" ]; then
    step "kt_kernel" env -i PATH="$PATH" PYTHONPATH="$pythondir" "$PYTHON" -c \
        "import kt_kernel; maps = open('/proc/self/maps').read(); assert '$libdir/libktkernel.so.0' in maps, maps"
fi
echo "installcheck: passed"
