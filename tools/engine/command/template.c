/* SPDX-License-Identifier: Apache-2.0 */
/* template.c - kt template: renders a chat template, or says what it supports. */
#include "tools/engine/prompt/prompt.h"
#include "tools/engine/base/dump.h"
#include "tools/kt/base/table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *request, *chat_template;
};

static const struct kt_cli_option options[] =
    {OPTION_TEXT("request", 'r', request, "FILE",
                 "render the JSON object in FILE (-: standard input): messages, tools, "
                 "add_generation_prompt and other variables of the template"),
     OPTION_TEXT("chat-template", 0, chat_template, "FILE",
                 "use this template instead of the model's: a file, or one of the built-in templates "
                 "chatml, llama3, mistral, deepseek and gemma"),
     {.name = NULL}};
const struct kt_cli_command kt_template_command =
    {.usage = "MODEL [OPTION]...",
     .about = "Shows what a chat template supports, or with --request renders it and prints only the text. "
              "MODEL is a GGUF file, a model's folder, a tokenizer.json, or a template itself, NAME.jinja.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 1};

static const struct kt_column columns[] = {
    {"feature", "FEATURE", KT_COLUMN_TEXT, 0, 0},
    {"supported", "SUPPORTED", KT_COLUMN_BOOL, 0, 0},
    {"meaning", "MEANING", KT_COLUMN_TEXT, 0, 0},
};

static bool is_template(const char *path)
{
    size_t length = strlen(path);
    return (length > 6 && strcmp(path + length - 6, ".jinja") == 0) ||
           (length > 3 && strcmp(path + length - 3, ".j2") == 0);
}

/* The template, and the tokenizer where there is one. */
static int open_template(const struct kt_cli *cli, const struct args *args, struct kt_tokenizer **tokenizer,
                         struct kt_template **chat)
{
    const char *model = cli->arguments[0];
    struct kt_error error;
    if (is_template(model))
        return kt_chat_read(cli, args->chat_template ? args->chat_template : model, chat);
    int code = kt_input_tokenizer(cli, model, tokenizer);
    if (code == KT_EXIT_OK && args->chat_template)
        return kt_chat_read(cli, args->chat_template, chat);
    if (code == KT_EXIT_OK && kt_template_open(*tokenizer, NULL, chat, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    return code;
}

/* The request with the model's own tokens; the bytes are malloc'ed. */
static int add_tokens(const struct kt_cli *cli, const struct kt_tokenizer *tokenizer, struct kt_buffer *bytes)
{
    json_t *request = json_loadb(bytes->data, bytes->length, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(request)) { /* the rendering says what is wrong with it */
        json_decref(request);
        return KT_EXIT_OK;
    }
    bool added = kt_chat_add_tokens(tokenizer, request);
    char *text = added ? kt_json_dump(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (!text)
        return kt_cli_error(cli, "out of memory");
    free(bytes->data);
    *bytes = (struct kt_buffer){.data = text, .length = strlen(text)};
    return KT_EXIT_OK;
}

static int render(const struct kt_cli *cli, const char *path, const struct kt_tokenizer *tokenizer,
                  const struct kt_template *chat)
{
    struct kt_buffer request = {.data = NULL};
    struct kt_rendering *rendering = NULL;
    struct kt_error error;
    int code = kt_input_read(cli, path, &request);
    if (code == KT_EXIT_OK && tokenizer)
        code = add_tokens(cli, tokenizer, &request);
    if (code == KT_EXIT_OK) {
        enum kt_status status =
            kt_template_render(chat, request.data, request.length, NULL, &rendering, &error);
        if (status == KT_E_FORMAT)
            code = kt_cli_error(cli, "%s: %s", path, error.message);
        else if (status != KT_OK)
            code = kt_cli_fail(cli, &error);
    }
    if (code == KT_EXIT_OK) {
        uint64_t length;
        const char *text = kt_rendering_text(rendering, &length);
        (void)fwrite(text, 1, length, stdout);
    }
    kt_rendering_destroy(rendering);
    free(request.data);
    return code;
}

static void add_row(struct kt_table *table, const char *feature, bool supported, const char *meaning)
{
    kt_table_row(table);
    kt_table_text(table, "feature", feature);
    kt_table_bool(table, "supported", supported);
    kt_table_text(table, "meaning", meaning);
}

static int show(struct kt_cli *cli, const struct kt_template *chat)
{
    struct kt_template_info info;
    struct kt_error error;
    if (kt_template_info(chat, &info, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    struct kt_output *output = kt_output_create(cli, "kt.template", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    kt_output_fact_text(output, "source", "template", info.source);
    kt_output_fact_text(output, "format", NULL, kt_output_format_name(info.format));
    add_row(table, "system", info.takes_system, "messages of the role system");
    add_row(table, "parts", info.takes_parts, "content as a list of parts");
    add_row(table, "tools", info.takes_tools, "definitions of tools");
    add_row(table, "calls", info.takes_calls, "calls of tools and their results");
    add_row(table, "parallel calls", info.takes_parallel, "several calls in one message");
    add_row(table, "calls as text", info.wants_text,
            "arguments of calls are given as JSON text, not as objects");
    add_row(table, "reasoning", info.takes_reasoning, "the last answer's reasoning_content is shown");
    add_row(table, "switches thinking", info.switches_thinking,
            "enable_thinking, thinking or reasoning_effort changes the text");
    add_row(table, "starts reasoning", info.starts_reasoning, "a new answer begins within the reasoning");
    return kt_output_finish(output, KT_EXIT_OK);
}

int kt_cmd_template(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.request = NULL};
    struct kt_tokenizer *tokenizer = NULL;
    struct kt_template *chat = NULL;
    if (!kt_cli_parse(cli, &kt_template_command, argc, argv, &args))
        return cli->exit_code;
    int code = open_template(cli, &args, &tokenizer, &chat);
    if (code == KT_EXIT_OK)
        code = args.request ? render(cli, args.request, tokenizer, chat) : show(cli, chat);
    kt_template_destroy(chat);
    kt_tokenizer_destroy(tokenizer);
    return code;
}
