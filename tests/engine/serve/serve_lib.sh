# SPDX-License-Identifier: Apache-2.0
# What the tests of kt run share; they read it with `.`.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "a program that is emulated cannot execute another one"
[ -x "$(dirname "$kt_program")/kt-serve" ] || skip "kt-serve was not built"
with_plugin attention || skip "the plugin attention was not built"
with_plugin llamafile || skip "the backend llamafile was not built"
model=$data/tiny-moe-q4_k_m.gguf
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
# Answers are compared with others that were computed beside more: AMX multiplies many rows in another way than few.
KT_KERNEL_CORE_DETERMINISTIC=yes
export KT_KERNEL_CORE_DETERMINISTIC
# Threads that wait for a next request sleep soon: there are other tests.
KT_KERNEL_CORE_SPIN_US=20
export KT_KERNEL_CORE_SPIN_US
LD_LIBRARY_PATH=$KT_TEST_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE
python=${PYTHON:-python3}
"$python" -c 'import http.client' 2>/dev/null || python=python3
"$python" -c 'import http.client' 2>/dev/null || skip "there is no Python"

# start ARGUMENT...: a server in the background, its port in $port; what it logs goes to $dir/served.
start()
{
    command_line="kt run $*"
    : >"$dir/served"
    rm -f "$dir/lines"
    mkfifo "$dir/lines"
    "$kt_program" run --port 0 --threads 2 "$@" >"$out" 2>"$dir/lines" &
    server=$!
    port=
    exec 4<"$dir/lines"
    while IFS= read -r line <&4; do
        printf '%s\n' "$line" >>"$dir/served"
        case $line in
        "kt run: note: ready: http:"*) port=${line##*:} && break ;;
        esac
    done
    cat <&4 >>"$dir/served" & # whatever comes later
    logger=$!
    exec 4<&-
    [ -z "$port" ] || return 0
    wait "$logger"
    cp "$dir/served" "$err"
    fail "the server did not start"
    finish
}

# stop CODE: SIGTERM must end it with that.
stop()
{
    kill "$server"
    wait "$server"
    code=$?
    server=
    wait "$logger"
    cp "$dir/served" "$err"
    exits "$1"
    warns_not 'Sanitizer\|runtime error'
}

run_python()
{
    command_line="$*"
    script=$KT_TEST_SOURCE/tests/engine/serve/$1
    shift
    "$python" "$script" "$@" >"$out" 2>"$err"
    code=$?
    exits 0
}
