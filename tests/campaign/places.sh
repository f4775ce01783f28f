# SPDX-License-Identifier: Apache-2.0
# The commands of the part `places`, read by campaign.sh with `.`: each verb, and clients. Their results are made
# once more each time; what a command has only on its standard output is not looked at.
at=$work/places
prefix=$(real prefix)
mkdir -p "$at"
head -c 600 "$KT_TEST_SOURCE/COPYING" >"$at/text"
printf '%s\n' '{"messages": [{"role": "user", "content": "Who is it?"}], "add_generation_prompt": true}' >"$at/request.json"
printf '%s\n' '{"type": "object", "properties": {"a": {"enum": ["x", 1]}}, "required": ["a"], "additionalProperties": false}' >"$at/form"

fail_once "$at/o" "$program" forward -m "$model" -i "$trace" --layer 0 --output "$at/o" --check
fail_once "$at/s" "$program" forward -m "$model" -i "$trace" --stats "$at/s" --record "$at/r" --threads 2
fail_once - "$program" forward -m "$bf16" -i "$trace" --layer 0 --backend reference
fail_once - "$program" inspect --tensors "$tiny/fp8-block-l0"
fail_once - "$program" inspect "$model"
fail_once - "$program" explain "$model" -v
fail_once - "$program" explain "$bf16" --format json
"$program" forward -m "$model" -i "$trace" --stats "$at/used" >/dev/null 2>"$err"
fail_once "$at/placed" "$program" place "$at/used" --gpu-experts 2 --output "$at/placed"
fail_once - "$program" place "$at/used" --update "$at/placed" --max-moves 2
fail_once "$at/summed" "$program" stats "$at/used" "$at/used" --experts --output "$at/summed"
for verb in show check path; do
    fail_once - "$program" config $verb
done
fail_once "$at/kt.ini" "$program" config set core.threads 2 --config "$at/kt.ini"
fail_once - "$program" backends -v
fail_once - "$program" version -v
for method in amx_int8 amx_int4; do
    [ -f "$dir/plugins/kt_$method.so" ] || continue
    fail_once "$at/$method/layer-00000.safetensors" "$program" convert --input "$bf16" --output "$at/$method" --method $method
    fail_once - "$program" verify "$at/$method"
    fail_once "$at/o" "$program" forward -m "$at/$method" -i "$trace" --output "$at/o"
    mkdir -p "$at/client"
    fail_once "$at/client/o" "$(real client)" "$bf16" $method "$at/client" "$at/client/o"
done
fail_once "$at/linears/linear-output.safetensors" "$program" convert "$model" --output "$at/linears" --backend AMXINT8 --linears all
fail_once - "$program" plugin new my_format --dir "$at/project"
rm -rf "$at/project"

[ ! -x "$engine" ] || . "$campaign/places_text.sh"

# Longer ones, which find fewer places.
quick="--min-time 0.001 --cycle 2 --repeats 1 --runs 1"
# shellcheck disable=SC2086 # words
for more in '--shape 256,256,4,2 --backend reference --tokens 1,3' '--linear 256x256 --backend reference --tokens 1' \
    "$model --layers 0 --tokens 1" --limits --dispatch --latency '--attention 2/1x32:16 --context 20'; do
    fail_once - "$program" bench $more $quick
done
