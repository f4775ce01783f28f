/* SPDX-License-Identifier: Apache-2.0 */
/* builtin.c - templates by family, for checkpoints that have none. They know text only: no tools, no
 * reasoning. */
#include "tools/engine/text/template/builtin.h"

#include "tools/engine/base/fail.h"

#include <stdio.h>
#include <string.h>

/* Content as text: parts are joined, null is nothing. */
#define TEXT_OF                                                                      \
    "{%- macro text_of(content) -%}\n"                                               \
    "    {%- if content is string -%}{{ content }}\n"                                \
    "    {%- elif content -%}\n"                                                     \
    "        {%- for part in content -%}\n"                                          \
    "            {%- if part is string -%}{{ part }}\n"                              \
    "            {%- elif part.type == 'text' -%}{{ part.text }}\n"                  \
    "            {%- else -%}{{ raise_exception('This model reads text only.') }}\n" \
    "            {%- endif -%}\n"                                                    \
    "        {%- endfor -%}\n"                                                       \
    "    {%- endif -%}\n"                                                            \
    "{%- endmacro -%}\n"

static const char chatml[] =
    TEXT_OF "{%- for message in messages -%}\n"
            "    {{- '<|im_start|>' + message.role + '\\n' + text_of(message.content) + '<|im_end|>\\n' -}}\n"
            "{%- endfor -%}\n"
            "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n";

static const char llama3[] = TEXT_OF
    "{{- bos_token -}}\n"
    "{%- for message in messages -%}\n"
    "    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}\n"
    "    {{- text_of(message.content)|trim + '<|eot_id|>' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif "
    "-%}\n";

/* There is no place for a system message: it goes before the user's first one. */
static const char mistral[] =
    TEXT_OF "{{- bos_token -}}\n"
            "{%- set ns = namespace(system='') -%}\n"
            "{%- for message in messages -%}\n"
            "    {%- if message.role == 'system' -%}\n"
            "        {%- set ns.system = ns.system + text_of(message.content) + '\\n\\n' -%}\n"
            "    {%- elif message.role == 'assistant' -%}\n"
            "        {{- ' ' + text_of(message.content) + eos_token -}}\n"
            "    {%- elif message.role == 'user' -%}\n"
            "        {{- '[INST] ' + ns.system + text_of(message.content) + ' [/INST]' -}}\n"
            "        {%- set ns.system = '' -%}\n"
            "    {%- else -%}\n"
            "        {{- raise_exception('Only the roles system, user and assistant are supported.') -}}\n"
            "    {%- endif -%}\n"
            "{%- endfor -%}\n";

static const char deepseek[] =
    TEXT_OF "{{- bos_token -}}\n"
            "{%- for message in messages if message.role == 'system' -%}\n"
            "    {{- ('' if loop.first else '\\n\\n') + text_of(message.content) -}}\n"
            "{%- endfor -%}\n"
            "{%- for message in messages -%}\n"
            "    {%- if message.role == 'user' -%}{{- '<｜User｜>' + text_of(message.content) -}}\n"
            "    {%- elif message.role == 'assistant' -%}\n"
            "        {{- '<｜Assistant｜>' + text_of(message.content).split('</think>')[-1] -}}\n"
            "        {{- '<｜end▁of▁sentence｜>' -}}\n"
            "    {%- elif message.role != 'system' -%}\n"
            "        {{- raise_exception('Only the roles system, user and assistant are supported.') -}}\n"
            "    {%- endif -%}\n"
            "{%- endfor -%}\n"
            "{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%}\n";

/* Gemma 1 to 3: a system message goes before the user's first one. */
static const char gemma[] = TEXT_OF
    "{{- bos_token -}}\n"
    "{%- set ns = namespace(system='') -%}\n"
    "{%- for message in messages -%}\n"
    "    {%- if message.role == 'system' -%}\n"
    "        {%- set ns.system = ns.system + text_of(message.content) + '\\n\\n' -%}\n"
    "    {%- elif message.role == 'user' or message.role == 'assistant' -%}\n"
    "        {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' -}}\n"
    "        {{- ns.system if message.role == 'user' -}}\n"
    "        {{- text_of(message.content)|trim + '<end_of_turn>\\n' -}}\n"
    "        {%- set ns.system = '' if message.role == 'user' else ns.system -%}\n"
    "    {%- else -%}\n"
    "        {{- raise_exception('Only the roles system, user and assistant are supported.') -}}\n"
    "    {%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}\n";

static const struct {
    const char *name;
    const char *token; /* a vocabulary with this one speaks it */
    const char *source;
} families[] = {
    {"chatml", "<|im_start|>", chatml},  {"llama3", "<|start_header_id|>", llama3},
    {"mistral", "[INST]", mistral},      {"deepseek", "<｜Assistant｜>", deepseek},
    {"gemma", "<start_of_turn>", gemma},
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

const char *kt_template_builtin_name(size_t index)
{
    return index < N_FAMILIES ? families[index].name : NULL;
}

const char *jinja_builtin_token(size_t index)
{
    return index < N_FAMILIES ? families[index].token : NULL;
}

enum kt_status kt_template_builtin(const char *family, struct kt_template **chat, struct kt_error *error)
{
    char name[64];
    if (!family || !chat)
        return kt_engine_fail(error, KT_E_INVALID, "kt_template_builtin: family and chat must not be NULL");
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(family, families[i].name) != 0)
            continue;
        (void)snprintf(name, sizeof name, "built-in %s", family);
        return kt_template_create(families[i].source, strlen(families[i].source), name, chat, error);
    }
    return kt_engine_fail(
        error, KT_E_NOT_FOUND,
        "no built-in template '%.100s'; there are chatml, llama3, mistral, deepseek and gemma", family);
}
