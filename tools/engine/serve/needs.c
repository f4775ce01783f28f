/* SPDX-License-Identifier: Apache-2.0 */
/* needs.c - what a template needs, by rendering small conversations as they would be sent to it. */
#include "tools/engine/base/fail.h"
#include "tools/engine/serve/history.h"
#include "tools/engine/text/template/render.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM(text) "{\"role\":\"system\",\"content\":\"" text "\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define MODEL(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define CALL(id, name, value)                                                 \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name \
    "\",\"arguments\":{\"kt_key\":\"" value "\"}}}"
#define CALLS(content, more, calls) \
    "{\"role\":\"assistant\",\"content\":\"" content "\"" more ",\"tool_calls\":[" calls "]}"
#define RESULT(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"
#define TWO_PARTS "[{\"type\":\"text\",\"text\":\"kt-part\"},{\"type\":\"text\",\"text\":\"kt-more\"}]"
#define PARTS(role) "{\"role\":\"" role "\",\"content\":" TWO_PARTS "}"
#define TOOL(more) "[{\"type\":\"function\",\"function\":{\"name\":\"kt_tool\"" more "}}]"
#define PROPERTIES(list) ",\"parameters\":{\"type\":\"object\",\"properties\":{" list "}}"
#define ABOUT ",\"description\":\"kt_about\""
#define ONE_ID "call_0123456789abcdef01234567"
#define ONE_CALL CALLS("", "", CALL(ONE_ID, "kt_tool", "kt-value"))

/* A conversation that is allowed, and what its prompt must show. */
struct trial {
    const char *messages, *tools;
    const char *words[5];
};

struct probe {
    size_t need; /* of struct kt_needs: tried where the trial fails without it */
    struct trial trial;
};

#define NEED(name) offsetof(struct kt_needs, name)
#define TEXT_ONLY(role) (offsetof(struct kt_needs, text_only) + (role) * sizeof(bool))

/* Each stands behind those without which it could not pass. */
static const struct probe roles[] =
    {{NEED(no_system), {SYSTEM("kt-system") "," USER("kt-user"), NULL, {"kt-system", "kt-user"}}},
     {NEED(one_system),
      {SYSTEM("kt-1") "," SYSTEM("kt-2") "," USER("kt-user"), NULL, {"kt-1", "kt-2", "kt-user"}}},
     {NEED(user_somewhere), {SYSTEM("kt-system"), NULL, {"kt-system"}}},
     {NEED(user_first), {MODEL("kt-model") "," USER("kt-user"), NULL, {"kt-model", "kt-user"}}},
     {NEED(alternation), {USER("kt-1") "," USER("kt-2"), NULL, {"kt-1", "kt-2"}}},
     {NEED(alternation),
      {USER("kt-1") "," MODEL("kt-2") "," MODEL("kt-3") "," USER("kt-4"),
       NULL,
       {"kt-1", "kt-2", "kt-3", "kt-4"}}},
     {NEED(first_system), {USER("kt-1") "," SYSTEM("kt-2"), NULL, {"kt-1", "kt-2"}}},
     {NEED(first_system),
      {SYSTEM("kt-1") "," USER("kt-2") "," MODEL("kt-3") "," SYSTEM("kt-4") "," USER("kt-5"),
       NULL,
       {"kt-1", "kt-2", "kt-3", "kt-4", "kt-5"}}},
     {TEXT_ONLY(KT_ROLE_SYSTEM),
      {PARTS("system") "," USER("kt-user"), NULL, {"kt-part", "kt-more", "kt-user"}}},
     {TEXT_ONLY(KT_ROLE_USER), {PARTS("user"), NULL, {"kt-part", "kt-more"}}},
     {TEXT_ONLY(KT_ROLE_ASSISTANT),
      {USER("kt-1") "," PARTS("assistant") "," USER("kt-2"), NULL, {"kt-part", "kt-more"}}}};

static const struct probe of_calls[] =
    {{NEED(single_calls),
      {USER("kt-user") "," CALLS("", "",
                                 CALL("call_1", "kt_first",
                                      "kt-1") "," CALL("call_2", "kt_second",
                                                       "kt-2")) "," RESULT("call_1",
                                                                           "kt-3") "," RESULT("call_2",
                                                                                              "kt-4"),
       NULL,
       {"kt_first", "kt-2", "kt-3", "kt_second", "kt-4"}}},
     {NEED(answered_tools),
      {USER("kt-user") "," ONE_CALL "," RESULT(ONE_ID, "kt-1") "," USER("kt-2"),
       NULL,
       {"kt_tool", "kt-1", "kt-2"}}},
     {NEED(joined_reasoning),
      {USER("kt-user") "," CALLS("kt-1", ",\"reasoning_content\":\"kt-2\"",
                                 CALL(ONE_ID, "kt_tool", "kt-value")) "," RESULT(ONE_ID, "kt-3"),
       NULL,
       {"kt_tool", "kt-3"}}},
     {TEXT_ONLY(KT_ROLE_TOOL),
      {USER("kt-user") "," ONE_CALL ",{\"role\":\"tool\",\"tool_call_id\":\"" ONE_ID
                       "\",\"content\":" TWO_PARTS "}",
       NULL,
       {"kt-part", "kt-more"}}}};

static const struct probe of_tools[] =
    {{NEED(description), {USER("kt-user"), TOOL(PROPERTIES("")), {"kt_tool"}}},
     {NEED(parameters), {USER("kt-user"), TOOL(ABOUT), {"kt_tool"}}},
     {NEED(properties), {USER("kt-user"), TOOL(ABOUT ",\"parameters\":{}"), {"kt_tool"}}},
     {NEED(properties), {USER("kt-user"), TOOL(ABOUT ",\"parameters\":{\"type\":\"object\"}"), {"kt_tool"}}},
     {NEED(types),
      {USER("kt-user"),
       TOOL(ABOUT PROPERTIES(
           "\"kt_a\":{\"enum\":[\"x\"]},\"kt_b\":{},\"kt_c\":{\"anyOf\":[{\"type\":\"null\"}]}")),
       {"kt_tool"}}},
     {NEED(single_types),
      {USER("kt-user"), TOOL(ABOUT PROPERTIES("\"kt_a\":{\"type\":[\"string\",\"null\"]}")), {"kt_tool"}}},
     {NEED(text_defaults),
      {USER("kt-user"),
       TOOL(ABOUT PROPERTIES("\"kt_a\":{\"type\":\"string\",\"enum\":[\"x\"],\"default\":1}")),
       {"kt_tool"}}},
     {NEED(user_somewhere), {SYSTEM("kt-system"), TOOL(ABOUT PROPERTIES("")), {"kt_tool", "kt-system"}}},
     {NEED(user_first),
      {MODEL("kt-1") "," USER("kt-2"), TOOL(ABOUT PROPERTIES("")), {"kt_tool", "kt-1", "kt-2"}}}};

struct finder {
    const struct kt_template *chat;
    struct kt_needs *needs;
    bool has_memory;
    uint64_t length; /* of the last prompt */
};

/* What the template is given; NULL: no memory. */
static json_t *make_variables(const struct finder *f, const struct trial *trial)
{
    json_t *variables = NULL;
    size_t length = strlen(trial->messages);
    char *list = malloc(length + 3);
    if (list) {
        list[0] = '[';
        memcpy(list + 1, trial->messages, length);
        memcpy(list + 1 + length, "]", 2);
    }
    json_t *messages = list ? json_loads(list, 0, NULL) : NULL, *given = NULL, *tools = NULL;
    messages = messages ? kt_history_fit(f->needs, messages, NULL) : NULL;
    given = trial->tools ? json_loads(trial->tools, 0, NULL) : NULL;
    tools = given ? kt_history_tools(f->needs, given) : NULL;
    if (messages && (!trial->tools || tools))
        variables = json_pack("{s:s, s:s, s:b, s:O, s:O*}", "bos_token", "<kt-bos>", "eos_token", "<kt-eos>",
                              "add_generation_prompt", 1, "messages", messages, "tools", tools);
    json_decref(tools);
    json_decref(given);
    json_decref(messages);
    free(list);
    return variables;
}

/* Does the prompt show all of the words, in none of the forms in which they are no conversation? */
static bool passes(struct finder *f, const struct trial *trial)
{
    static const char *const wrong[] = {"{'kt_key'", "\\\"kt_key",          "None",
                                        "kt-part'",  "\"text\": \"kt-part", "\"text\":\"kt-part"};
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_rendering *rendering = NULL;
    json_t *variables = make_variables(f, trial);
    bool shown = false;
    params.max_output = 1 << 20;
    params.has_time = 1;
    enum kt_status status =
        variables ? kt_template_render_values(f->chat, variables, &params, &rendering, NULL) : KT_E_NOMEM;
    if (status == KT_OK) {
        const char *text = kt_rendering_text(rendering, &f->length);
        shown = true;
        for (size_t i = 0; i < sizeof(trial->words) / sizeof(trial->words[0]) && trial->words[i]; i++)
            shown = shown && strstr(text, trial->words[i]);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            shown = shown && !strstr(text, wrong[i]);
    }
    f->has_memory = f->has_memory && status != KT_E_NOMEM;
    kt_rendering_destroy(rendering);
    json_decref(variables);
    return shown;
}

static void find(struct finder *f, const struct probe *probes, size_t n)
{
    for (size_t i = 0; i < n && f->has_memory; i++) {
        bool *need = (bool *)((char *)f->needs + probes[i].need);
        if (*need || passes(f, &probes[i].trial))
            continue;
        *need = true;
        *need = passes(f, &probes[i].trial); /* what does not help is not done */
    }
}

/* The first way in which a call and its result are shown. */
static bool find_way(struct finder *f, const struct trial *trial)
{
    struct kt_needs *needs = f->needs;
    for (unsigned way = 0; way < 12 && f->has_memory; way++) {
        needs->ids = (enum kt_id_form)(way % 3);
        needs->text_arguments = way / 3 % 2;
        needs->result_names = way / 6;
        if (passes(f, trial))
            return true;
    }
    needs->ids = KT_ID_ANY;
    needs->text_arguments = needs->result_names = false;
    return false;
}

/* A content of null is what clients send beside calls, and some templates write more for an empty one; but
 * others stumble over it, and most make no difference. */
static void find_calls(struct finder *f)
{
    static const struct trial one = {USER("kt-user") "," ONE_CALL "," RESULT(ONE_ID, "kt-result"),
                                     NULL,
                                     {"kt_tool", "kt-value", "kt-result"}};
    static const struct probe results[] = {
        {NEED(no_results),
         {USER("kt-user") "," MODEL("kt-model") "," RESULT(ONE_ID, "kt-result"), NULL, {"kt-result"}}}};
    struct kt_needs *needs = f->needs;
    bool works = find_way(f, &one);
    uint64_t length = f->length;
    needs->null_content = true;
    bool takes_null = works ? passes(f, &one) : find_way(f, &one);
    needs->null_content = takes_null && (!works || f->length < length);
    needs->no_calls = !works && !takes_null;
    needs->text_only[KT_ROLE_TOOL] = needs->no_calls;
    if (needs->no_calls)
        find(f, results, 1);
}

static void find_reasoning(struct finder *f)
{
    static const struct trial between = {USER("kt-user") "," CALLS("", ",\"thinking\":\"kt-reasoning\"",
                                                                   CALL(ONE_ID, "kt_tool",
                                                                        "kt-value")) "," RESULT(ONE_ID,
                                                                                                "kt-result"),
                                         NULL,
                                         {"kt-reasoning"}};
    static const struct trial before =
        {USER("kt-user") ",{\"role\":\"assistant\",\"content\":\"kt-answer\",\"thinking\":\"kt-reasoning\"}",
         NULL,
         {"kt-reasoning"}};
    const struct probe probes[] = {{NEED(other_reasoning), between}, {NEED(other_reasoning), before}};
    find(f, probes, 2);
}

enum kt_status kt_needs_find(const struct kt_template *chat, const struct kt_template_info *info,
                             struct kt_needs *needs, struct kt_error *error)
{
    struct finder f = {.chat = chat, .needs = needs, .has_memory = true};
    *needs = (struct kt_needs){.no_tools = !info->takes_tools};
    needs->own_calls = needs->no_tools && info->format == KT_OUTPUT_DEEPSEEK;
    find(&f, roles, sizeof(roles) / sizeof(roles[0]));
    find_calls(&f);
    if (!needs->no_calls)
        find(&f, of_calls, sizeof(of_calls) / sizeof(of_calls[0]));
    if (!needs->no_tools)
        find(&f, of_tools, sizeof(of_tools) / sizeof(of_tools[0]));
    find_reasoning(&f);
    /* Calls in another form than the definitions tell would be none to the parser of output. */
    needs->own_calls = needs->own_calls && !needs->no_calls;
    return f.has_memory ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for a chat template");
}
