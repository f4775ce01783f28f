/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - what a template can do, found by rendering small conversations, and the format of calls by its
 * words. */
#include "tools/engine/text/template/template.h"

#include "tools/engine/base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER "{\"role\":\"user\",\"content\":\"kt-user\"}"
#define CALL(id, name, arguments)                                                                           \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":" arguments \
    "}}"
#define CALLS(content, calls) "{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[" calls "]}"
#define RESULT(id, name) \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"name\":\"" name "\",\"content\":\"kt-result\"}"
#define OBJECT "{\"kt_key\":\"kt_value\"}"
#define OBJECT_TEXT "\"{\\\"kt_key\\\": \\\"kt_value\\\"}\""
#define TOOLS                                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"kt_tool\",\"description\":\"kt_description\","     \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"kt_key\":{\"type\":\"string\",\"description\":\"d\"}}," \
    "\"required\":[\"kt_key\"]}}}]"

static enum kt_status render(const struct kt_template *chat, const char *messages, const char *more,
                             struct kt_rendering **rendering, struct kt_error *error)
{
    char variables[2048];
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    params.has_time = 1;
    params.max_output = 1 << 20;
    (void)snprintf(variables, sizeof variables,
                   "{\"bos_token\":\"<kt-bos>\",\"eos_token\":\"<kt-eos>\",\"messages\":[%s]%s%s}", messages,
                   *more ? "," : "", more);
    return kt_template_render(chat, variables, strlen(variables), &params, rendering, error);
}

/* A rendering of these messages; NULL: the template refuses, or there is no memory, which *status says. */
static struct kt_rendering *probe(const struct kt_template *chat, const char *messages, const char *more,
                                  enum kt_status *status)
{
    struct kt_rendering *rendering = NULL;
    enum kt_status found = render(chat, messages, more, &rendering, NULL);
    if (found == KT_E_NOMEM)
        *status = found;
    return found == KT_OK ? rendering : NULL;
}

/* Does the rendering have all of these words, and not `wrong`? NULL are none. */
static bool shows(const struct kt_template *chat, const char *messages, const char *more,
                  const char *const words[3], const char *wrong, enum kt_status *status)
{
    struct kt_rendering *rendering = probe(chat, messages, more, status);
    bool found = rendering != NULL;
    for (int i = 0; i < 3 && found; i++)
        found = !words[i] || strstr(kt_rendering_text(rendering, NULL), words[i]);
    if (found && wrong && strstr(kt_rendering_text(rendering, NULL), wrong))
        found = false;
    kt_rendering_destroy(rendering);
    return found;
}

/* Do two sets of variables give different texts, or only one of them a text? */
static bool differ(const struct kt_template *chat, const char *messages_a, const char *a,
                   const char *messages_b, const char *b, enum kt_status *status)
{
    struct kt_rendering *one = probe(chat, messages_a, a, status), *two = probe(chat, messages_b, b, status);
    bool different = !one != !two;
    if (one && two)
        different = strcmp(kt_rendering_text(one, NULL), kt_rendering_text(two, NULL)) != 0;
    kt_rendering_destroy(one);
    kt_rendering_destroy(two);
    return different;
}

static void probe_calls(const struct kt_template *chat, struct kt_template_info *info, enum kt_status *status)
{
    static const char *const words[3] = {"kt_tool", "kt_value", "kt-result"};
    static const char one[] =
        USER "," CALLS("\"\"", CALL("callkt001", "kt_tool", OBJECT)) "," RESULT("callkt001", "kt_tool");
    static const char text[] =
        USER "," CALLS("\"\"", CALL("callkt001", "kt_tool", OBJECT_TEXT)) "," RESULT("callkt001", "kt_tool");
    bool object = shows(chat, one, "", words, "{'kt_key'", status);
    bool as_text = shows(chat, text, "", words, "\\\"kt_key", status);
    info->takes_calls = object || as_text;
    info->wants_text = as_text && !object;
    static const char *const both[3] = {"kt_first", "kt_second", NULL};
    static const char two[] =
        USER "," CALLS("\"\"", CALL("callkt001", "kt_first",
                                    OBJECT) "," CALL("callkt002", "kt_second",
                                                     OBJECT)) "," RESULT("callkt001",
                                                                         "kt_first") "," RESULT("callkt002",
                                                                                                "kt_second");
    static const char two_text[] = USER
        "," CALLS("\"\"",
                  CALL("callkt001", "kt_first",
                       OBJECT_TEXT) "," CALL("callkt002", "kt_second",
                                             OBJECT_TEXT)) "," RESULT("callkt001",
                                                                      "kt_first") "," RESULT("callkt002",
                                                                                             "kt_second");
    info->takes_parallel =
        info->takes_calls && shows(chat, info->wants_text ? two_text : two, "", both, NULL, status);
}

static bool ends_thinking(const struct kt_template *chat, enum kt_status *status)
{
    static const char *const tags[] = {"<think>", "[THINK]", "<|channel|>analysis<|message|>",
                                       "<longcat_think>"};
    struct kt_rendering *rendering = probe(chat, USER, "\"add_generation_prompt\":true", status);
    bool found = false;
    uint64_t length = 0;
    const char *text = rendering ? kt_rendering_text(rendering, &length) : "";
    while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        size_t n = strlen(tags[i]);
        found = found || (length >= n && memcmp(text + length - n, tags[i], n) == 0);
    }
    kt_rendering_destroy(rendering);
    return found;
}

/* The first of these words that the template has. */
static uint32_t find_format(const char *source)
{
    static const struct {
        const char *words;
        uint32_t format;
    } marks[] = {
        {"<|tool_calls_section_begin|>", KT_OUTPUT_KIMI},
        {"minimax:tool_call", KT_OUTPUT_MINIMAX},
        {"｜DSML｜", KT_OUTPUT_DSML},
        {"｜tool▁calls▁begin｜", KT_OUTPUT_DEEPSEEK},
        {"<|channel|>", KT_OUTPUT_HARMONY},
        {"<longcat_arg_key>", KT_OUTPUT_LONGCAT_MARKUP},
        {"<longcat_tool_call>", KT_OUTPUT_LONGCAT},
        {"<arg_key>", KT_OUTPUT_GLM},
        {"<function=", KT_OUTPUT_FUNCTION},
        {"[TOOL_CALLS]", KT_OUTPUT_MISTRAL},
        {"<tool_call>", KT_OUTPUT_HERMES},
        {"<|tool_call|>", KT_OUTPUT_JSON},
        {"<|tool_call_start|>", KT_OUTPUT_JSON},
        {"<|tool_list_start|>", KT_OUTPUT_JSON},
        {"\"parameters\": ", KT_OUTPUT_JSON},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(source, marks[i].words))
            return marks[i].format;
    return KT_OUTPUT_PLAIN;
}

enum kt_status kt_template_info(const struct kt_template *chat, struct kt_template_info *info,
                                struct kt_error *error)
{
    static const char *const system[3] = {"kt-system", "kt-user"}, *const tools[3] = {"kt_tool",
                                                                                      "kt_description"};
    static const char *const reasoning[3] = {"kt-reasoning", "kt-answer"};
    static const char *const switches[][2] = {{"\"enable_thinking\":true", "\"enable_thinking\":false"},
                                              {"\"thinking\":true", "\"thinking\":false"},
                                              {"\"reasoning_effort\":\"low\"",
                                               "\"reasoning_effort\":\"high\""}};
    static const char parts[] = "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"kt-user\"}]}";
    enum kt_status status = KT_OK;
    if (!chat || !info)
        return kt_engine_fail(error, KT_E_INVALID, "kt_template_info: chat and info must not be NULL");
    /* One that refuses a user's message alone can do nothing, and says why. */
    struct kt_rendering *plain = NULL;
    status = render(chat, USER, "", &plain, error);
    kt_rendering_destroy(plain);
    if (status != KT_OK)
        return status;
    *info = (struct kt_template_info){.source = chat->name, .format = find_format(chat->source)};
    info->takes_system =
        shows(chat, "{\"role\":\"system\",\"content\":\"kt-system\"}," USER, "", system, NULL, &status);
    info->takes_tools = shows(chat, USER, TOOLS, tools, NULL, &status);
    probe_calls(chat, info, &status);
    static const char *const user[3] = {"kt-user"};
    info->takes_parts =
        shows(chat, parts, "", user, NULL, &status) && !differ(chat, USER, "", parts, "", &status);
    info->takes_reasoning =
        shows(chat,
              USER
              ",{\"role\":\"assistant\",\"content\":\"kt-answer\",\"reasoning_content\":\"kt-reasoning\"}",
              "", reasoning, NULL, &status);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        for (size_t k = 0; k < 2; k++) {
            char more[2][96];
            for (size_t side = 0; side < 2; side++)
                (void)snprintf(more[side], sizeof more[side], "%s%s", switches[i][side],
                               k ? ",\"add_generation_prompt\":true" : "");
            info->switches_thinking =
                info->switches_thinking || differ(chat, USER, more[0], USER, more[1], &status);
        }
    info->starts_reasoning = ends_thinking(chat, &status);
    if (status != KT_OK)
        return kt_engine_fail(error, status, "%s: out of memory", chat->name);
    return KT_OK;
}
