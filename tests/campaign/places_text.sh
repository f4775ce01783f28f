# SPDX-License-Identifier: Apache-2.0
# More of places.sh: the verbs of text and whole models.
fail_once - "$program" tokenize "$model" "Who is it?" --pieces
fail_once - "$program" tokenize "$KT_TEST_SOURCE/tests/data/tokenizers/qwen2.json" "Who is it?"
fail_once - "$program" tokenize "$KT_TEST_SOURCE/tests/data/tokenizers/spm-first.json" "Who is it?"
fail_once - "$program" detokenize "$model" 1 2 3
fail_once - "$program" template "$model" --chat-template chatml --request "$at/request.json"
fail_once - "$program" template "$model" --chat-template llama3
fail_once - "$program" generate "$model" --prompt "Who" --tokens 4
fail_once - "$program" generate "$model" --prompt "Who" --tokens 200 --json-schema "$at/form"
fail_once - "$program" generate "$model" --chat --chat-template chatml --prompt "Who" --tokens 4
fail_once "$at/logits" "$program" perplexity "$model" "$at/text" --context 16 --save-logits "$at/logits"
fail_once - "$program" perplexity "$model" "$at/text" --context 16 --kl-divergence "$at/logits"
fail_once - "$program" model add "$model" --name tiny
for verb in list 'info tiny' 'path tiny' 'verify tiny' 'edit tiny --name small' 'info small'; do
    # shellcheck disable=SC2086 # words
    fail_once - "$program" model $verb
done
fail_once - "$program" model scan "$tiny"
fail_once - "$program" chat "$model" --chat-template chatml --tokens 4 --prompt "Who"
KT_KERNEL_CORE_THREADS=1 fail_once - "$prefix" 0 1 "$model" "$at/session"
