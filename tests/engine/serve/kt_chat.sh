#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt chat: with a model in its own process, with a running kt run, with servers that misbehave, at a terminal.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
unset KT_API_KEY http_proxy HTTP_PROXY all_proxy ALL_PROXY NO_COLOR

# The same as kt generate says, wherever the model is; and only that on standard output.
question="Who are you?"
set -- --temperature 0 --tokens 24 --threads 2
kt generate "$model" --chat --chat-template chatml --prompt "$question" "$@"
exits 0
{ cat "$out" && echo; } >"$dir/wanted"
echo "$question" >"$dir/question"
kt chat "$model" --chat-template chatml --file "$dir/question" --context 512 "$@"
exits 0
warns '^\[24 tokens, .*, context 5[0-9]/512\]$'
warns 'the response was truncated at 24 tokens'
cmp "$dir/wanted" "$out" || fail "the model must answer as kt generate does"
kt chat "$model" --chat-template chatml --prompt "$question" --context 20 "$@"
exits 1
warns 'the prompt has [0-9]* tokens; with its answer it may have 20'
warns "'kt chat --context N' gives more context"
kt chat "$model" --chat-template chatml --prompt "$question" --system "You are a king." --stop o "$@"
exits 0
says_not o
kt chat "$dir/nowhere" --prompt x
exits 1

start "$model" --context 256 --chat-template chatml
kt chat "http://127.0.0.1:$port/" --prompt "$question" "$@"
exits 0
cmp "$dir/wanted" "$out" || fail "kt run must answer as kt generate does"
stop 0

run_python chat_pipes.py "$kt_program"
"$python" -c 'import pty, termios' 2>/dev/null || { echo "not run: terminals: this Python has none" && finish; }
run_python chat_terminal.py "$kt_program" "$dir" "$model"
finish
