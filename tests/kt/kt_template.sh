#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kt template: a model's template, one in a file, a built-in one; requests, refusals, damage.
. "${KT_TEST_SOURCE:?}/tests/kt/kt_lib.sh"
find_verbs
[ -n "$engine_verbs" ] || { echo "SKIP: kt template: $why"; exit 77; }

mkdir "$dir/model" "$dir/bare"
cp "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" "$dir/model/tokenizer.json"
cp "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" "$dir/bare/tokenizer.json"
cat >"$dir/model/tokenizer_config.json" <<'END'
{"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role not in ['system', 'user'] %}{{ raise_exception('no ' + m.role + ' here') }}{% endif %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"}
END
echo '{"messages": [{"role": "user", "content": "hi <|im_end|>"}], "add_generation_prompt": true}' >"$dir/request.json"
printf '<|im_start|>user: hi <|im_end|><|im_end|>\nassistant:' >"$dir/wanted"

kt template "$dir/model" --request "$dir/request.json"
exits 0
is_silent
cmp -s "$out" "$dir/wanted" || fail "the text must be $(cat "$dir/wanted")"
kt template "$dir/model" -r - <"$dir/request.json"
exits 0
cmp -s "$out" "$dir/wanted" || fail "standard input must do the same"
kt template "$dir/model/tokenizer.json" -r "$dir/request.json"
cmp -s "$out" "$dir/wanted" || fail "the tokenizer's file must do the same"

# What the request says goes before what the model has.
echo '{"messages": [], "bos_token": "B"}' >"$dir/own.json"
kt template "$dir/model" -r "$dir/own.json"
[ "$(cat "$out")" = B ] || fail "bos_token of the request must be taken"

# The template's own words, and nothing else.
echo '{"messages": [{"role": "tool", "content": "x"}]}' >"$dir/tool.json"
kt template "$dir/model" -r "$dir/tool.json"
exits 1
[ ! -s "$out" ] || fail "a refusal prints no text"
grep -q 'no tool here' "$err" || fail "the template's words must be shown"

# What it can do.
kt template "$dir/model"
exits 0
says '^system *yes'
says '^calls *no'
kt template "$dir/model" --format json
exits 0
grep -q '"format": "plain"' "$out" || fail "the format of calls must be named"

# Another template, and a model that has none: its control tokens speak for ChatML.
printf '{%% for m in messages %%}[{{ m.content }}]{%% endfor %%}' >"$dir/other.jinja"
kt template "$dir/model" --chat-template "$dir/other.jinja" -r "$dir/request.json"
[ "$(cat "$out")" = "[hi <|im_end|>]" ] || fail "--chat-template must be taken"
kt template "$dir/other.jinja" -r "$dir/request.json"
[ "$(cat "$out")" = "[hi <|im_end|>]" ] || fail "a template may stand alone"
kt template "$dir/bare" -r "$dir/request.json"
exits 0
grep -q '^<|im_start|>assistant' "$out" || fail "ChatML must be taken"
kt template "$dir/model" --chat-template llama3 -r "$dir/request.json"
exits 0
grep -q 'start_header_id' "$out" || fail "built-in templates must be found by name"

# Templates come with downloads: each of these ends with an error, and soon.
doubled="{% set ns = namespace(a='a') %}{% for i in range(21) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"
cat >"$dir/hostile" <<END
{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1}|length }}
{% set ns = namespace(a=(1,)) %}{% for i in range(90000) %}{% set ns.a = (ns.a,) %}{% endfor %}{{ {ns.a: 1}|length }}
$doubled{% set b = ns.a[:1000000] ~ 'b' %}{{ ns.a.rfind(b) }}
$doubled{% for i in range(100000) %}{% set x = ns.a.removeprefix(ns.a) %}{% endfor %}
$doubled{% for i in range(100000) %}{% if ns.a in ns.a %}{% endif %}{% endfor %}
$doubled{% for i in range(100000) %}{% if ns.a is lower %}{% endif %}{% endfor %}
END
while read -r line; do
    printf '%s' "$line" >"$dir/hostile.jinja"
    kt template "$dir/hostile.jinja" -r "$dir/request.json"
    exits 1
    grep -q 'hostile.jinja:1:' "$err" || fail "the place must be named"
done <"$dir/hostile"

# Damage.
printf '{%% if %%}' >"$dir/broken.jinja"
kt template "$dir/broken.jinja"
exits 1
grep -q 'broken.jinja:1:' "$err" || fail "line and column must be named"
echo '[1]' >"$dir/list.json"
# What renders nothing says why, rather than that it can do nothing.
echo "{{ raise_exception('only on Sundays') }}" >"$dir/refuses.jinja"
kt template "$dir/refuses.jinja"
exits 1
grep -q 'only on Sundays' "$err" || fail "the template's own words must be shown"
kt template "$dir/model" -r "$dir/list.json"
exits 1
kt template "$dir/model" -r "$dir/nowhere.json"
exits 1
grep -q 'nowhere.json' "$err" || fail "the file must be named"
kt template
exits 2
kt template "$dir/nowhere"
exits 1
finish
