#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run, by a client that nobody here wrote: the Python package openai.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
for other in "$python" python3 none; do
    "$other" -c 'import openai' 2>/dev/null && break
done
[ "$other" != none ] || skip "there is no Python package openai"
python=$other
start "$model" --context 512 --chat-template "$KT_TEST_SOURCE/tests/engine/serve/serve_tools.jinja"
run_python serve_openai.py "$port"
stop 0
finish
