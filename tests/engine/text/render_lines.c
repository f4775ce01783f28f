/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render_lines.c - renders for scripts, which would otherwise start a process for each case. Reads JSON a
 * line,
 * {"template": .., "variables": {..}}, and writes JSON a line: {"text": .., "parts": [[text, is content],
 * ..]} or
 * {"status": .., "error": ..}. The clock is 2026-01-02 03:04:05.
 */
#include <kt/text.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *render(const json_t *request)
{
    const json_t *source = json_object_get(request, "template");
    char *variables = json_dumps(json_object_get(request, "variables"), 0);
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_template *chat = NULL;
    struct kt_rendering *rendering = NULL;
    struct kt_error error = {.status = KT_OK};
    params.has_time = 1;
    params.time = 1767323045;
    params.parse_arguments = json_is_true(json_object_get(request, "parse_arguments"));
    params.tidy_messages = json_is_true(json_object_get(request, "tidy_messages"));
    enum kt_status status =
        kt_template_create(json_string_value(source), json_string_length(source), "t", &chat, &error);
    if (status == KT_OK)
        status = kt_template_render(chat, variables, strlen(variables), &params, &rendering, &error);
    json_t *answer;
    if (status == KT_OK) {
        uint64_t length, n;
        const char *text = kt_rendering_text(rendering, &length);
        const struct kt_text_part *parts = kt_rendering_parts(rendering, &n);
        json_t *list = json_array();
        for (uint64_t i = 0; i < n; i++)
            json_array_append_new(list, json_pack("[s%,b]", parts[i].text, (size_t)parts[i].length,
                                                  (int)parts[i].is_content));
        answer = json_pack("{s:s%,s:o}", "text", text, (size_t)length, "parts", list);
    } else {
        answer = json_pack("{s:i,s:s}", "status", (int)status, "error", error.message);
    }
    kt_rendering_destroy(rendering);
    kt_template_destroy(chat);
    free(variables);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_error_t error;
        json_t *request = json_loads(line, JSON_ALLOW_NUL, &error);
        json_t *answer = request ? render(request) : NULL;
        char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        if (!text) {
            (void)fprintf(stderr, "render_lines: %s\n", request ? "no answer" : error.text);
            return 1;
        }
        puts(text);
        (void)fflush(stdout);
        free(text);
        json_decref(answer);
        json_decref(request);
    }
    free(line);
    return 0;
}
