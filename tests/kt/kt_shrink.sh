#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A checkpoint that shrinks while it is in use ends kt with a clear line, not with a bare signal.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
[ -z "${EMULATOR:-}" ] || skip "an emulator has threads of its own, which this test counts"
[ -d /proc/self/task ] || skip "/proc is not there"
mkfifo "$dir/pipe"
# Backends that read the file in a product, and what they need for it.
backend=reference
backends=reference
in_place=
if with_plugin llamafile; then
    backends='reference llamafile'
    in_place='--set plugin.llamafile.repack=no'
fi

# start ARGUMENT...: the output is a pipe that nobody reads yet. kt opens and checks the model, makes
# its threads, and waits there, before it reads weights.
start()
{
    command_line="kt forward $*"
    cp "$data/tiny-moe-bf16-l0-l3.gguf" "$dir/model.gguf"
    chmod u+w "$dir/model.gguf"
    # Not by a function: its shell would be the process that $! names.
    # shellcheck disable=SC2086 # an option and its argument, or nothing
    "$KT_TEST_BUILD/kt" forward --model "$dir/model.gguf" --input "$trace" --backend $backend $in_place \
        --threads 2 --output "$dir/pipe" "$@" >"$out" 2>"$err" &
    pid=$!
    tries=0
    until [ "$(ls "/proc/$pid/task" 2>/dev/null | wc -l)" -ge 2 ]; do
        tries=$((tries + 1))
        if [ $tries -gt 100000 ] || ! kill -0 $pid 2>/dev/null; then
            kill $pid 2>/dev/null
            wait $pid
            code=$?
            fail "kt must wait for a reader of its output, with its threads"
            finish
        fi
    done
}

# The library sees a file that shrank before it reads on, and says so. Where the file shrinks under
# a running product, the system sends a signal.
shrink()
{
    head -c 20000 "$data/tiny-moe-bf16-l0-l3.gguf" >"$dir/model.gguf"
    cat "$dir/pipe" >/dev/null &
    wait $pid
    code=$?
    kill $! 2>/dev/null
    { wait $!; } 2>/dev/null
    exits 1
    [ "$(wc -l <"$err")" -eq 1 ] || fail "one line must say it"
}
for io in mmap read; do
    start --io $io
    shrink
    warns '^kt.*: error: .*model.gguf'
done

# A shrunk file whose new length is hidden from the library: its map ends in the middle, and the
# first to notice is a product, in whichever thread.
hide=$KT_TEST_BUILD/.libs/kt_fstat.so
if [ -f "$hide" ]; then
    for backend in $backends; do
        for threads in 2 5; do
            ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
            KT_TEST_SIZE_NOW=20000
            KT_TEST_SIZE_BEFORE=$(wc -c <"$data/tiny-moe-bf16-l0-l3.gguf")
            LD_PRELOAD=$hide
            export ASAN_OPTIONS KT_TEST_SIZE_NOW KT_TEST_SIZE_BEFORE LD_PRELOAD
            start --io mmap --set core.threads=$threads
            unset LD_PRELOAD KT_TEST_SIZE_NOW KT_TEST_SIZE_BEFORE
            shrink
            warns '^kt: error: a mapped file shrank or could not be read: .*model.gguf.*--io read$'
        done
    done
    backend=reference
fi

# The same signal, sent.
start --io mmap
kill -BUS $pid
wait $pid
code=$?
exits 1
warns '^kt: error: a mapped file shrank or could not be read: .*model.gguf.*--io read$'
[ "$(wc -l <"$err")" -eq 1 ] || fail "one line must say it"
finish
