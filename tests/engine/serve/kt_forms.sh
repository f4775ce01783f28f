#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run: answers and calls that must have a form.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
start "$model" --context 512 --chat-template "$KT_TEST_SOURCE/tests/engine/serve/serve_tools.jinja"
run_python serve_forms.py "$port"
stop 0
finish
