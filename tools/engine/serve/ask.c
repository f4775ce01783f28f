/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/sampling/reals.h"
#include "tools/engine/serve/dialect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { NOT_SAID = -2 };

/* What the body's plain fields are read into, before they go where they belong. */
struct values {
    struct kt_sampling_params sampling; /* the reals of it */
    int64_t top_k, seed, max_tokens, max_completion_tokens, min_tokens, n, n_logprobs, top_logprobs;
    int64_t dry_allowed_length, best_of, repeat_last_n, dry_penalty_last_n, n_indent, t_max_predict_ms;
    bool stream, ignore_eos, logprobs, echo, parallel_tool_calls, has_seed;
    const char *model, *suffix;
    json_t *stream_options, *logit_bias, *stop_token_ids, *dry_sequence_breakers;
};

#define REAL(name, least, most, asked_least, asked_most, is_filter) \
    {#name, KT_FIELD_REAL, offsetof(struct values, sampling.name), asked_least, asked_most},
#define INT(name, least, most)                                              \
    {                                                                       \
#name, KT_FIELD_INT, offsetof(struct values, name), (least), (most) \
    }
#define OTHER(name, type)                                \
    {                                                    \
#name, type, offsetof(struct values, name), 0, 0 \
    }

static const struct kt_field both[] = {KT_SAMPLING_REALS(REAL) INT(dry_allowed_length, 1, 1 << 20),
                                       INT(dry_penalty_last_n, -1, INT32_MAX),
                                       OTHER(dry_sequence_breakers, KT_FIELD_LIST),
                                       INT(repeat_last_n, -1, INT32_MAX),
                                       INT(top_k, -1, INT32_MAX),
                                       INT(seed, -INFINITY, INFINITY),
                                       INT(max_tokens, -1, UINT32_MAX),
                                       INT(max_completion_tokens, -1, UINT32_MAX),
                                       INT(min_tokens, 0, UINT32_MAX),
                                       INT(n, 1, KT_MOST_ANSWERS),
                                       OTHER(stream, KT_FIELD_BOOL),
                                       OTHER(ignore_eos, KT_FIELD_BOOL),
                                       OTHER(model, KT_FIELD_TEXT),
                                       OTHER(stream_options, KT_FIELD_OBJECT),
                                       OTHER(logit_bias, KT_FIELD_OBJECT),
                                       OTHER(stop_token_ids, KT_FIELD_LIST),
                                       {.name = NULL}};
static const struct kt_field of_chats[] = {OTHER(logprobs, KT_FIELD_BOOL),
                                           INT(top_logprobs, 0, 20),
                                           OTHER(parallel_tool_calls, KT_FIELD_BOOL),
                                           {.name = NULL}};
static const struct kt_field of_completions[] = {{"logprobs", KT_FIELD_INT,
                                                  offsetof(struct values, n_logprobs), 0, 20},
                                                 OTHER(echo, KT_FIELD_BOOL),
                                                 OTHER(suffix, KT_FIELD_TEXT),
                                                 INT(best_of, 1, KT_MOST_ANSWERS),
                                                 INT(n_indent, 0, INT32_MAX),
                                                 INT(t_max_predict_ms, INT32_MIN, INT32_MAX),
                                                 {.name = NULL}};

/* ---- fields of their own ---- */

static bool add_stop(struct kt_ask *ask, const json_t *text, struct kt_problem *problem)
{
    const char *name = ask->dialect->stop;
    if (!json_is_string(text))
        return kt_problem_field(problem, name, "'%s' must be a string or an array of strings, not %s", name,
                                kt_fields_type(text));
    if (json_string_length(text) == 0)
        return true; /* some clients say so where there is none */
    if (json_string_length(text) > KT_MOST_STOP_LENGTH)
        return kt_problem_field(problem, name, "'%s' holds a string of %zu bytes; %d is the most", name,
                                json_string_length(text), KT_MOST_STOP_LENGTH);
    if (ask->n_stops == KT_MOST_STOPS)
        return kt_problem_field(problem, name, "'%s' holds more than %d strings", name, KT_MOST_STOPS);
    ask->stops[ask->n_stops++] =
        (struct kt_stop_text){.text = json_string_value(text), .length = json_string_length(text)};
    return true;
}

static bool read_stop(struct kt_ask *ask, struct kt_problem *problem)
{
    const json_t *stop = json_object_get(ask->body, ask->dialect->stop), *text;
    size_t i;
    if (!stop || json_is_null(stop))
        return true;
    if (!json_is_array(stop))
        return add_stop(ask, stop, problem);
    json_array_foreach (stop, i, text) {
        if (!add_stop(ask, text, problem))
            return false;
    }
    return true;
}

static bool read_bias(const struct kt_served *model, struct kt_ask *ask, json_t *object,
                      struct kt_problem *problem)
{
    const char *key;
    json_t *value;
    uint64_t n = 0;
    if (!object || json_object_size(object) == 0)
        return true;
    if (json_object_size(object) > KT_MOST_BIASES)
        return kt_problem_field(problem, "logit_bias", "'logit_bias' holds %zu ids; %d is the most",
                                json_object_size(object), KT_MOST_BIASES);
    ask->logit_bias = calloc(json_object_size(object), sizeof(*ask->logit_bias));
    if (!ask->logit_bias)
        return kt_problem_memory(problem);
    json_object_foreach (object, key, value) {
        char *end;
        unsigned long long id = strtoull(key, &end, 10);
        bool is_padded = key[0] == '0' && key[1] != '\0'; /* else an id could have two keys */
        if (*key < '0' || *key > '9' || is_padded || *end || id >= model->n_vocabulary)
            return kt_problem_field(problem, "logit_bias",
                                    "'logit_bias' names '%.40s', which is not an id below %" PRIu64, key,
                                    model->n_vocabulary);
        double bias = json_number_value(value);
        if (!json_is_number(value) || !(bias >= -100 && bias <= 100))
            return kt_problem_field(problem, "logit_bias",
                                    "'logit_bias' of %llu must be a number in -100 .. 100", id);
        /* OpenAI: -100 is a ban. */
        ask->logit_bias[n++] =
            (struct kt_logit_bias){.id = (int32_t)id, .bias = bias <= -100 ? -__builtin_inff() : (float)bias};
    }
    ask->sampling.logit_bias = ask->logit_bias;
    ask->sampling.n_logit_bias = n;
    return true;
}

bool kt_ask_read_ids(const struct kt_served *model, const json_t *list, const char *param, int32_t **ids,
                     uint64_t *n_ids, struct kt_problem *problem)
{
    const json_t *id;
    size_t i;
    *n_ids = json_array_size(list);
    *ids = calloc(*n_ids + 1, sizeof(**ids));
    if (!*ids)
        return kt_problem_memory(problem);
    json_array_foreach (list, i, id) {
        double value = json_number_value(id); /* 40.0 is one, too */
        if (!json_is_number(id) || !(value >= 0 && value < (double)model->n_vocabulary) ||
            value != (double)(int32_t)value) {
            free(*ids);
            *ids = NULL;
            return kt_problem_field(problem, param,
                                    "'%s' must hold ids below %" PRIu64 "; number %zu is none", param,
                                    model->n_vocabulary, i);
        }
        (*ids)[i] = (int32_t)value;
    }
    return true;
}

/* An unpredictable seed, for requests without one. */
static uint64_t make_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (uint64_t)(kt_cli_now() * 1e9);
    return seed;
}

/* ---- all fields ---- */

static struct values default_values(const struct kt_served *model)
{
    return (struct values){.sampling = model->sampling,
                           .dry_allowed_length = model->sampling.dry_allowed_length,
                           .dry_penalty_last_n = NOT_SAID,
                           .repeat_last_n = NOT_SAID,
                           .top_k = model->sampling.top_k,
                           .max_tokens = -1,
                           .max_completion_tokens = -1,
                           .n = 1,
                           .n_logprobs = -1,
                           .parallel_tool_calls = true};
}

/* How many tokens penalties and DRY look back at. -1: all; 0: they are off. */
static void set_windows(const struct values *values, struct kt_sampling_params *sampling)
{
    if (values->repeat_last_n == 0) {
        sampling->repetition_penalty = 1;
        sampling->presence_penalty = sampling->frequency_penalty = 0;
    } else if (values->repeat_last_n != NOT_SAID) {
        sampling->penalty_last_n = values->repeat_last_n < 0 ? 0 : (uint64_t)values->repeat_last_n;
    }
    if (values->dry_penalty_last_n == 0)
        sampling->dry_multiplier = 0;
    else if (values->dry_penalty_last_n != NOT_SAID)
        sampling->dry_last_n = values->dry_penalty_last_n < 0 ? 0 : (uint64_t)values->dry_penalty_last_n;
}

/* Texts at which repetitions end for DRY. All tokens are searched for them. */
static bool read_breakers(const struct kt_served *model, struct kt_ask *ask, const json_t *list,
                          struct kt_problem *problem)
{
    static const char name[] = "dry_sequence_breakers";
    const char *texts[KT_MOST_STOPS];
    const json_t *one;
    struct kt_error error;
    size_t i;
    if (json_array_size(list) > KT_MOST_STOPS)
        return kt_problem_field(problem, name, "'%s' holds more than %d strings", name, KT_MOST_STOPS);
    json_array_foreach (list, i, one) {
        texts[i] = json_string_value(one);
        if (!texts[i] || !*texts[i] || strlen(texts[i]) != json_string_length(one) ||
            json_string_length(one) > KT_MOST_STOP_LENGTH)
            return kt_problem_field(problem, name,
                                    "'%s[%zu]' must be a string of 1 .. %d bytes without zero bytes", name, i,
                                    KT_MOST_STOP_LENGTH);
    }
    if (json_array_size(list) == 0 || ask->sampling.dry_multiplier <= 0)
        return true;
    if (kt_sampling_breakers(model->tokenizer, texts, json_array_size(list), &ask->breakers,
                             &ask->sampling.n_dry_breakers, &error) != KT_OK)
        return kt_problem_error(problem, 400, &error);
    ask->sampling.dry_breakers = ask->breakers;
    return true;
}

static void set_sampling(const struct values *values, struct kt_ask *ask)
{
    struct kt_sampling_params *sampling = &ask->sampling;
    const json_t *seed = json_object_get(ask->body, "seed");
    *sampling = values->sampling;
    sampling->seed = seed && !json_is_null(seed) ? (uint64_t)values->seed : make_seed();
    sampling->dry_allowed_length = (uint32_t)values->dry_allowed_length;
    sampling->top_k = values->top_k < 0 ? 0 : (uint32_t)values->top_k;
    set_windows(values, sampling);
    ask->has_logprobs = values->logprobs || values->n_logprobs >= 0;
    sampling->logprobs = ask->has_logprobs;
    sampling->n_top = (uint32_t)(values->n_logprobs > 0 ? values->n_logprobs : values->top_logprobs);
}

static bool check_values(const struct values *values, struct kt_ask *ask, struct kt_problem *problem)
{
    static const struct kt_field usage[] = {{"include_usage", KT_FIELD_BOOL,
                                             offsetof(struct kt_ask, includes_usage), 0, 0},
                                            {"continuous_usage_stats", KT_FIELD_BOOL,
                                             offsetof(struct kt_ask, has_usage_always), 0, 0},
                                            {.name = NULL}};
    if ((values->max_tokens == 0 && !values->echo) || values->max_completion_tokens == 0) {
        const char *name = values->max_tokens == 0 ? "max_tokens" : "max_completion_tokens";
        return kt_problem_field(problem, name, "'%s' is 0; it must be at least 1", name);
    }
    if (values->top_logprobs > 0 && !values->logprobs)
        return kt_problem_field(problem, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    if (values->suffix && *values->suffix)
        return kt_problem_field(problem, "suffix", "'suffix' needs a text as 'prompt'");
    if (values->best_of > values->n && values->stream)
        return kt_problem_field(problem, "best_of", "'best_of' above 'n' cannot be streamed");
    if (values->stream_options && !values->stream)
        return kt_problem_field(problem, "stream_options", "'stream_options' needs 'stream': true");
    return !values->stream_options || kt_fields_read(values->stream_options, usage, ask, problem);
}

bool kt_ask_read(struct kt_served *model, json_t *body, const struct kt_dialect *dialect, struct kt_ask *ask,
                 struct kt_problem *problem)
{
    bool is_chat = dialect->is_chat;
    struct values values = default_values(model);
    *ask = (struct kt_ask){.dialect = dialect, .body = body, .is_chat = is_chat};
    if (!kt_fields_read(body, both, &values, problem) ||
        !kt_fields_read(body, is_chat ? of_chats : of_completions, &values, problem) ||
        !kt_ask_check_unknown(model, body, problem))
        return false;
    set_sampling(&values, ask);
    if (!check_values(&values, ask, problem) || !read_stop(ask, problem) ||
        !read_bias(model, ask, values.logit_bias, problem) ||
        !read_breakers(model, ask, values.dry_sequence_breakers, problem))
        return false;
    if (values.stop_token_ids) {
        uint64_t n = json_array_size(values.stop_token_ids);
        if (n > KT_MOST_STOP_IDS)
            return kt_problem_field(problem, "stop_token_ids",
                                    "'stop_token_ids' holds %" PRIu64 " ids; %d is the most", n,
                                    KT_MOST_STOP_IDS);
        if (!kt_ask_read_ids(model, values.stop_token_ids, "stop_token_ids", &ask->stop_ids, &n, problem))
            return false;
        ask->n_stop_ids = (uint32_t)n;
    }
    ask->model = values.model ? values.model : model->names[0];
    ask->max_tokens = values.max_completion_tokens > 0 ? values.max_completion_tokens : values.max_tokens;
    if (ask->max_tokens < 0) /* not said, as some clients say by -1 */
        ask->max_tokens = 0;
    ask->echoes_only = values.echo && values.max_tokens == 0 && ask->max_tokens == 0;
    if (!is_chat && !dialect->is_endless && ask->max_tokens == 0)
        ask->max_tokens = ask->echoes_only ? 1 : 16; /* as OpenAI's */
    ask->min_tokens = values.min_tokens;
    ask->n = ask->n_shown = values.n;
    if (dialect == &kt_dialect_completion && values.best_of > values.n) {
        ask->n = values.best_of;
        ask->sampling.logprobs = true;
    }
    ask->streams = values.stream;
    ask->ignores_eos = values.ignore_eos;
    ask->echoes = values.echo;
    ask->serial_calls = !values.parallel_tool_calls;
    ask->least_indent = values.n_indent;
    ask->most_ms = values.t_max_predict_ms > 0 ? values.t_max_predict_ms : 0;
    ask->lists_tokens =
        dialect->lists_entries &&
        (values.stream || json_is_true(json_object_get(json_object_get(body, KT_ECHO), "return_tokens")));
    return true;
}

void kt_ask_shrink(struct kt_ask *ask)
{
    const char *const used[] = {"model", ask->dialect->stop, KT_ECHO, KT_CUSTOM};
    json_t *rest = json_object();
    bool done = rest != NULL;
    for (size_t i = 0; done && i < sizeof(used) / sizeof(used[0]); i++) {
        json_t *value = json_object_get(ask->body, used[i]);
        done = !value || json_object_set(rest, used[i], value) == 0;
    }
    if (done) {
        json_decref(ask->body);
        ask->body = rest;
    } else {
        json_decref(rest);
    }
}

void kt_ask_free(struct kt_ask *ask)
{
    for (size_t i = 0; i < ask->n_prompts; i++) {
        if (ask->prompts[i].is_given)
            free(ask->prompts[i].ids);
        else
            kt_ids_free(ask->prompts[i].ids);
    }
    free(ask->prompts);
    free(ask->logit_bias);
    free(ask->stop_ids);
    kt_ids_free(ask->breakers);
    json_decref(ask->tools);
    kt_grammar_destroy(ask->grammar);
    json_decref(ask->body);
    *ask = (struct kt_ask){.body = NULL};
}

/* ---- prompts of completions ---- */

static struct kt_prompt *add_prompt(struct kt_ask *ask, struct kt_problem *problem)
{
    struct kt_prompt *grown = realloc(ask->prompts, (ask->n_prompts + 1) * sizeof(*grown));
    if (!grown) {
        kt_problem_memory(problem);
        return NULL;
    }
    ask->prompts = grown;
    grown[ask->n_prompts] = (struct kt_prompt){.ids = NULL};
    return &grown[ask->n_prompts++];
}

static bool add_text(struct kt_served *model, struct kt_ask *ask, const char *param, const char *text,
                     size_t length, struct kt_problem *problem)
{
    const struct kt_text_part part = {.text = text, .length = length};
    struct kt_error error;
    struct kt_prompt *prompt = add_prompt(ask, problem);
    if (!prompt)
        return false;
    if (kt_tokenizer_encode(model->tokenizer, &part, 1, KT_ENCODE_BOS, &prompt->ids, &prompt->n_ids,
                            &error) != KT_OK)
        return kt_problem_error(problem, 400, &error);
    if (prompt->n_ids == 0)
        return kt_problem_field(problem, param, "'%s' is empty, and the model has no token to begin with",
                                param);
    return true;
}

static bool add_ids(struct kt_served *model, struct kt_ask *ask, const char *param, const json_t *list,
                    struct kt_problem *problem)
{
    struct kt_prompt *prompt = add_prompt(ask, problem);
    if (!prompt)
        return false;
    prompt->is_given = true;
    if (!kt_ask_read_ids(model, list, param, &prompt->ids, &prompt->n_ids, problem))
        return false;
    return prompt->n_ids > 0 || kt_problem_field(problem, param, "'%s' holds an empty list of ids", param);
}

/* Of a list; what it holds was not looked at yet. */
static bool add_item(struct kt_served *model, struct kt_ask *ask, const char *param, const json_t *item,
                     struct kt_problem *problem)
{
    if (json_is_string(item))
        return add_text(model, ask, param, json_string_value(item), json_string_length(item), problem);
    if (json_is_array(item))
        return add_ids(model, ask, param, item, problem);
    return kt_problem_field(problem, param, "'%s' holds %s; strings, ids or lists of ids are expected", param,
                            kt_fields_type(item));
}

bool kt_ask_read_texts(struct kt_served *model, struct kt_ask *ask, const char *param, size_t most,
                       struct kt_problem *problem)
{
    const json_t *given = json_object_get(ask->body, param), *item;
    size_t i;
    if (!given || json_is_null(given))
        return kt_problem_field(problem, param, "'%s' is missing", param);
    if (json_is_string(given))
        return add_item(model, ask, param, given, problem);
    if (!json_is_array(given))
        return kt_problem_field(problem, param, "'%s' must be a string or an array, not %s", param,
                                kt_fields_type(given));
    if (json_is_number(json_array_get(given, 0)))
        return add_ids(model, ask, param, given, problem);
    if (json_array_size(given) == 0)
        return kt_problem_field(problem, param, "'%s' is an empty array", param);
    if (json_array_size(given) > most)
        return kt_problem_field(problem, param, "'%s' holds %zu texts; %zu is the most", param,
                                json_array_size(given), most);
    json_array_foreach (given, i, item) {
        if (!add_item(model, ask, param, item, problem))
            return false;
    }
    return true;
}

bool kt_ask_read_prompts(struct kt_served *model, struct kt_ask *ask, struct kt_problem *problem)
{
    const struct kt_wished_form form = {NULL, NULL, false};
    uint64_t n = 0, each = (uint64_t)ask->n * (1 + ask->sampling.n_top);
    if (!kt_ask_read_texts(model, ask, "prompt", KT_MOST_ANSWERS, problem))
        return false;
    if (ask->n_prompts * (size_t)ask->n > KT_MOST_ANSWERS)
        return kt_problem_field(problem, "prompt", "'prompt' and 'n' ask for more than %d answers at once",
                                KT_MOST_ANSWERS);
    if (!kt_ask_read_form(model, ask, &form, problem))
        return false;
    for (size_t i = 0; i < ask->n_prompts && ask->echoes && ask->has_logprobs; i++)
        n += ask->prompts[i].n_ids * each;
    return n <= KT_MOST_ECHOED ||
           kt_problem_field(problem, "echo",
                            "'echo' would give %" PRIu64 " logprobs of prompts; %d is the most", n,
                            KT_MOST_ECHOED);
}

const struct kt_field *const kt_ask_tables[3] = {both, of_chats, of_completions};
