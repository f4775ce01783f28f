#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run, by a client that nobody here wrote: the Python package openai.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
for other in "$python" python3 none; do
    "$other" -c 'import openai' 2>/dev/null && break
done
[ "$other" != none ] || skip "there is no Python package openai"
python=$other
cat >"$dir/tools.jinja" <<'END'
{%- if tools %}{{ '<|im_start|>system\n<tool_call>' }}{{ tools | tojson }}{{ '</tool_call><|im_end|>\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
END
start "$model" --context 512 --chat-template "$dir/tools.jinja"
run_python serve_openai.py "$port"
stop 0
finish
