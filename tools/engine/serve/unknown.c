/* SPDX-License-Identifier: Apache-2.0 */
/* unknown.c - fields of a request that nobody reads: each is named in the log once, or refused. */
#include "tools/engine/sampling/reals.h"
#include "tools/engine/serve/ask.h"
#include "tools/engine/serve/dialect.h"
#include "tools/engine/serve/server.h"
#include "tools/engine/serve/wish.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAMES = 64, MOST_LENGTH = 40 };

/* What kt_ask_read, chats and completions read, and what means nothing here but is no mistake. */
static const char known[] =
#define NAME(name, ...) " " #name
    KT_SAMPLING_REALS(
        NAME) " dry_allowed_length dry_penalty_last_n dry_sequence_breakers repeat_last_n top_k seed max_tokens "
              "n_indent t_max_predict_ms max_completion_tokens min_tokens n stream ignore_eos model stream_options logit_bias stop_token_ids stop "
              "stop_sequences logprobs top_logprobs parallel_tool_calls echo suffix best_of prompt messages tools tool_choice "
              "functions function_call chat_template_kwargs response_format reasoning_effort add_generation_prompt "
              "continue_final_message strict user separate_reasoning return_progress metadata store " KT_ECHO
              " " KT_CUSTOM " " KT_LIMITED " ";

static bool is_known(const char *name)
{
    size_t length = strlen(name);
    for (const char *found = strstr(known, name); found && length; found = strstr(found + 1, name))
        if (found[-1] == ' ' && found[length] == ' ')
            return true;
    return false;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char named[MOST_NAMES][MOST_LENGTH + 1];
static size_t n_named;

/* False: no more of them are named. */
static bool note(const char *what, const char *name)
{
    char shown[MOST_LENGTH + 1] = "", line[160];
    size_t i = 0;
    for (; i < MOST_LENGTH && name[i]; i++)
        shown[i] = (char)(name[i] > ' ' && name[i] <= '~' ? name[i] : '?');
    pthread_mutex_lock(&lock);
    for (i = 0; i < n_named && strcmp(named[i], shown) != 0;)
        i++;
    bool is_new = i == n_named && n_named < MOST_NAMES, goes_on;
    if (is_new)
        memcpy(named[n_named++], shown, sizeof(shown));
    goes_on = n_named < MOST_NAMES;
    pthread_mutex_unlock(&lock);
    int length =
        snprintf(line, sizeof(line),
                 "kt run: note: requests have %s '%s', which is not known here and ignored\n", what, shown);
    if (is_new && length > 0 && !kt_progress_log(line, (size_t)length))
        return false; /* there is nobody to be told */
    return goes_on;
}

void kt_ask_note(const struct kt_served *model, const char *what, const char *name)
{
    if (model->server->log >= KT_SERVE_LOG_ACCESS)
        (void)note(what, name);
}

bool kt_ask_check_unknown(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    bool is_strict = json_is_true(json_object_get(body, "strict"));
    const char *name;
    json_t *value;
    json_object_foreach (body, name, value) {
        if (is_known(name) || kt_wish_knows(name))
            continue;
        if (is_strict)
            return kt_problem_field(problem, "strict", "'%.80s' is not known here, and 'strict' is true",
                                    name);
        if (model->server->log < KT_SERVE_LOG_ACCESS || !note("a field", name))
            break;
    }
    return true;
}
