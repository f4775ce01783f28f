/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit_lines.c - conversations as the server makes prompts of them, for scripts. Reads JSON a line,
 * {"template": ..}, which the following lines are about, or {"messages": .., "tools": ..}, and writes JSON a
 * line: what the template needs, or {"text": ..} or {"error": ..}. The clock is 2026-01-02 03:04:05.
 */
#include "tools/engine/base/big.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_template *chat;
static struct kt_needs needs;

static json_t *show_needs(void)
{
    return json_pack("{s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,"
                     "s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:[b,b,b,b],s:i}",
                     "no_calls", needs.no_calls, "no_results", needs.no_results, "no_tools", needs.no_tools,
                     "own_calls", needs.own_calls, "no_system", needs.no_system, "one_system",
                     needs.one_system, "first_system", needs.first_system, "alternation", needs.alternation,
                     "user_first", needs.user_first, "user_somewhere", needs.user_somewhere, "answered_tools",
                     needs.answered_tools, "single_calls", needs.single_calls, "result_names",
                     needs.result_names, "null_content", needs.null_content, "text_arguments",
                     needs.text_arguments, "joined_reasoning", needs.joined_reasoning, "other_reasoning",
                     needs.other_reasoning, "description", needs.description, "parameters", needs.parameters,
                     "properties", needs.properties, "types", needs.types, "single_types", needs.single_types,
                     "text_defaults", needs.text_defaults, "text_only", needs.text_only[0],
                     needs.text_only[1], needs.text_only[2], needs.text_only[3], "ids", (int)needs.ids);
}

static json_t *open_template(const json_t *source)
{
    struct kt_template_info info;
    struct kt_error error;
    kt_template_destroy(chat);
    chat = NULL;
    if (kt_template_create(json_string_value(source), json_string_length(source), "t", &chat, &error) !=
            KT_OK ||
        kt_template_info(chat, &info, &error) != KT_OK || kt_needs_find(chat, &info, &needs, &error) != KT_OK)
        return json_pack("{s:s}", "error", error.message);
    return show_needs();
}

static json_t *render(const json_t *request)
{
    json_t *tools = json_object_get(request, "tools"),
           *given = json_deep_copy(json_object_get(request, "messages"));
    json_t *messages = kt_history_fit(&needs, given, needs.no_tools ? tools : NULL);
    json_t *fitted = tools && !needs.no_tools ? kt_history_tools(&needs, tools) : NULL, *answer;
    json_t *variables = json_pack("{s:o,s:o*,s:b,s:s,s:s}", "messages", messages, "tools", fitted,
                                  "add_generation_prompt", 1, "bos_token", "<s>", "eos_token", "</s>");
    char *text = kt_json_dump(variables, JSON_COMPACT);
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_rendering *rendering = NULL;
    struct kt_error error;
    params.has_time = 1;
    params.time = 1767323045;
    enum kt_status status = kt_template_render(chat, text, strlen(text), &params, &rendering, &error);
    if (status == KT_OK) {
        uint64_t length;
        const char *made = kt_rendering_text(rendering, &length);
        answer = json_pack("{s:s%,s:o}", "text", made, (size_t)length, "variables", json_incref(variables));
    } else {
        answer = json_pack("{s:s,s:o}", "error", error.message, "variables", json_incref(variables));
    }
    json_decref(variables);
    kt_rendering_destroy(rendering);
    free(text);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_error_t error;
        json_t *request = kt_json_read(line, strlen(line), JSON_ALLOW_NUL, &error);
        json_t *source = json_object_get(request, "template");
        json_t *answer = source ? open_template(source) : request ? render(request) : NULL;
        char *text = kt_json_dump(answer, JSON_COMPACT);
        if (!text) {
            (void)fprintf(stderr, "fit_lines: %s\n", request ? "no answer" : error.text);
            return 1;
        }
        puts(text);
        (void)fflush(stdout);
        free(text);
        json_decref(answer);
        json_decref(request);
    }
    kt_template_destroy(chat);
    free(line);
    return 0;
}
