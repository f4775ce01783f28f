#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public headers and their macros in C++11 to C++20: g++ and clang++ have nothing to say, a program in C++ runs a
# layer, another one tokenizes and chooses, and a plugin in C++ is loaded and computes what it should.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
here=$KT_TEST_SOURCE/tests/cxx
words=
for word in ${KT_TEST_CC:?}; do # the compiler of the same family and machine, for what is run
    case $word in
    gcc | *-gcc | gcc-* | */gcc) word=$(echo "$word" | sed 's/gcc\(-[0-9]*\)*$/g++\1/') ;;
    *clang*) word=$(echo "$word" | sed 's/clang/clang++/') ;;
    cc) word=c++ ;;
    esac
    words="$words $word"
done
cxx=${words# }
command -v ${cxx%% *} >/dev/null || skip "there is no $cxx (Debian: g++)"

# compile COMPILER STANDARD FILE OPTION...
compile()
{
    command_line="$1 -std=$2 $3"
    # shellcheck disable=SC2086 # a compiler may be several words
    $1 -std="$2" -pedantic-errors -Wall -Wextra -Wpedantic -Wshadow -Werror -fvisibility=hidden \
        -I"$KT_TEST_SOURCE/include" -I"$KT_TEST_BUILD/include" "$here/$3" ${4:--fsyntax-only} \
        >"$out" 2>"$err"
    code=$?
    exits 0
    is_silent
}

for compiler in "$cxx" g++ clang++; do
    command -v ${compiler%% *} >/dev/null || { echo "$compiler is not installed"; continue; }
    [ "$compiler" != "$cxx" ] || [ -z "${tried:-}" ] || continue
    tried=yes
    for standard in c++11 c++14 c++17 c++20; do
        compile "$compiler" $standard program.cc
        compile "$compiler" $standard plugin.cc
        compile "$compiler" $standard text.cc
    done
done
[ "$n_failed" -eq 0 ] || finish

engine=$KT_TEST_BUILD/.libs/libktengine.so
if [ -f "$engine" ]; then
    compile "$cxx" c++11 text.cc "${KT_TEST_SANITIZERS:-} -o $dir/text $engine -L$KT_TEST_BUILD/.libs -lktkernel"
    command_line=text
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs ${EMULATOR:-} "$dir/text" "$data/tiny-moe-q4_k_m.gguf" >"$out" 2>"$err"
    code=$?
    exits 0
    says '^the text came back$'
else
    echo "text.cc is not run: libktengine was not built"
fi

with_plugin llamafile || skip "the backend llamafile was not built"
compile "$cxx" c++11 program.cc "${KT_TEST_SANITIZERS:-} -o $dir/program $KT_TEST_BUILD/.libs/libktkernel.so"
command_line=program
# shellcheck disable=SC2086
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs ${EMULATOR:-} "$dir/program" "$data/tiny-moe-q4_k_m.gguf" >"$out" 2>"$err"
code=$?
exits 0
says '^y\[0\] = -*[0-9]'

# C++11 gives each field by its place, C++17 by its name.
for standard in c++11 c++17; do
    compile "$cxx" $standard plugin.cc "-O2 -fPIC -shared -Wl,-z,defs -Wl,-z,now -o $dir/plugins/kt_cxx.so"
    printf '[plugin.cxx]\nmodule = %s\n' "$dir/plugins/kt_cxx.so" >"$dir/shipped/cxx.ini"
    kt forward --model "$data/tiny-moe-bf16-l0-l3.gguf" --input "$trace" --backend cxx --check
    exits 0
    says 'cxx'
    kt plugin check --quick --cases 1 "$dir/plugins/kt_cxx.so"
    exits 0
done
finish
