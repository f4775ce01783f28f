/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/problem.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void word(struct kt_problem *problem, unsigned status, const char *code, const char *param,
                 const char *format, va_list arguments)
{
    *problem = (struct kt_problem){.status = status, .code = code};
    if (param)
        (void)snprintf(problem->param, sizeof(problem->param), "%s", param);
    (void)vsnprintf(problem->message, sizeof(problem->message), format, arguments);
    problem->told = (unsigned)strlen(problem->message);
}

bool kt_problem_set(struct kt_problem *problem, unsigned status, const char *code, const char *param,
                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    word(problem, status, code, param, format, arguments);
    va_end(arguments);
    return false;
}

bool kt_problem_field(struct kt_problem *problem, const char *param, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    word(problem, 400, NULL, param, format, arguments);
    va_end(arguments);
    return false;
}

bool kt_problem_path(struct kt_problem *problem, const char *path)
{
    static const struct {
        const char *path, *what;
    } others[] = {{"/v1/images/", "images"},
                  {"/v1/audio/", "sound"},
                  {"/lora-adapters", "LoRA adapters"},
                  {"/v1/load_lora_adapter", "LoRA adapters"},
                  {"/v1/unload_lora_adapter", "LoRA adapters"}};
    /* Not 501: clients' libraries send again what got a 5xx. */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strncmp(path, others[i].path, strlen(others[i].path)) == 0)
            return kt_problem_set(problem, 400, "not_implemented", NULL,
                                  "this server writes text; it has nothing for %s", others[i].what);
    return kt_problem_set(problem, 404, "not_found", NULL, "there is no such path here");
}

bool kt_problem_memory(struct kt_problem *problem)
{
    return kt_problem_set(problem, 500, "out_of_memory", NULL, "there is no memory for this request");
}

/* Of files their names only: where they stand on this machine is nobody's business. */
static void drop_folders(char *message)
{
    char *to = message;
    for (char *from = message; *from;) {
        bool begins = *from == '/' && (from == message || strchr(" '\"(", from[-1]));
        size_t length = begins ? strcspn(from, " '\")") : 0, folder = length;
        while (folder > 0 && from[folder - 1] != '/')
            folder--;
        if (folder > 1 && folder < length)
            from += folder;
        *to++ = *from++;
    }
    *to = '\0';
}

bool kt_problem_error(struct kt_problem *problem, unsigned status, const struct kt_error *error)
{
    if (error->status == KT_E_NOMEM)
        return kt_problem_memory(problem);
    (void)kt_problem_set(problem, status, NULL, NULL, "%s", error->message);
    if (error->status != KT_E_INVALID) /* a template's own words */
        drop_folders(problem->message);
    problem->told = (unsigned)strlen(problem->message);
    return false;
}

json_t *kt_json_text(const char *text, size_t length)
{
    if (kt_utf8_valid(text, length) == length)
        return json_stringn_nocheck(text, length);
    struct kt_buffer mended = {.data = NULL};
    bool done = true;
    for (size_t at = 0; done && at < length;) {
        size_t good = kt_utf8_valid(text + at, length - at);
        done = kt_buffer_add(&mended, text + at, good);
        at += good;
        if (done && at < length) {
            bool is_cut;
            at += kt_utf8_broken(text + at, length - at, &is_cut);
            done = kt_buffer_add(&mended, "\xef\xbf\xbd", 3);
        }
    }
    json_t *string = done ? json_stringn_nocheck(mended.data, mended.length) : NULL;
    kt_buffer_free(&mended);
    return string;
}

/* The words by which OpenAI's clients tell kinds of errors. */
static const char *name_type(unsigned status)
{
    if (status == 401)
        return "authentication_error";
    if (status == 403)
        return "permission_error";
    if (status == 404)
        return "not_found_error";
    if (status == 429)
        return "rate_limit_error";
    return status < 500 ? "invalid_request_error" : "server_error";
}

json_t *kt_problem_json(const struct kt_problem *problem)
{
    json_t *param = *problem->param ? kt_json_text(problem->param, strlen(problem->param)) : json_null();
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message",
                     kt_json_text(problem->message, strlen(problem->message)), "type",
                     name_type(problem->status), "param", param, "code", problem->code);
}
