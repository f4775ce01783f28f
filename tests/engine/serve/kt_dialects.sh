#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt run: Anthropic's messages and OpenAI's responses beside its chats, with a model that says what it is told to.
. "${KT_TEST_SOURCE:?}/tests/engine/serve/serve_lib.sh"
with_plugin bf16 || skip "the backend bf16 was not built"
"$python" "$KT_TEST_SOURCE/tests/engine/serve/serve_script.py" "$dir/script.gguf" || fail "no model"
start "$dir/script.gguf" --context 1024 --chat-template "$KT_TEST_SOURCE/tests/engine/serve/serve_script.jinja"
run_python serve_dialects.py "$port"
run_python serve_history.py "$port"
run_python serve_native.py "$port"
# Many at once for a moment; KT_TEST_SOAK_SECONDS and KT_TEST_SOAK_STREAMS for longer and more.
run_python serve_soak.py "$port" "$server" "${KT_TEST_SOAK_SECONDS:-1}" "${KT_TEST_SOAK_STREAMS:-8}" "${KT_TEST_SEED:-1}"
cat "$out"
# The packages that speak them.
for package in anthropic openai; do
    for other in "$python" python3 none; do
        "$other" -c "import $package" 2>/dev/null && break
    done
    if [ "$other" = none ]; then
        echo "not run: clients of the Python package $package: it is not installed"
    else
        python=$other
        run_python serve_packages.py "$port" "$package"
    fi
done
run_python serve_embed.py "$port" last
stop 0
# What the model's file says of embeddings, and what --pooling does.
write()
{
    "$python" "$KT_TEST_SOURCE/tests/engine/serve/serve_script.py" "$dir/script.gguf" "$@" || fail "no model"
}
write llama.pooling_type=1 tokenizer.ggml.add_eos_token=true
start "$dir/script.gguf" --context 1024
run_python serve_embed.py "$port" mean eos
stop 0
start "$dir/script.gguf" --context 1024 --pooling last
run_python serve_embed.py "$port" last eos
stop 0
write llama.pooling_type=2
start "$dir/script.gguf" --context 1024
run_python serve_embed.py "$port" refused
stop 0
finish
