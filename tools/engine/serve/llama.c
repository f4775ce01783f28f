/* SPDX-License-Identifier: Apache-2.0 */
/* llama.c - llama-server's own API: /completion, /infill, /props, /slots; and what is shared with Ollama's.
 */
#include "tools/engine/scheduler/scheduler.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/native.h"
#include "tools/engine/text/tokenizer/chat.h"

#include <kt/version.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared ---- */

bool kt_native_rename(json_t *to, const json_t *from, const struct kt_name *names, struct kt_problem *problem)
{
    for (const struct kt_name *name = names; name->here; name++) {
        json_t *value = json_object_get(from, name->here);
        if (value && !json_is_null(value) && json_object_set(to, name->there, value) != 0)
            return kt_problem_memory(problem);
    }
    return true;
}

const char *kt_native_time(time_t seconds, char *text)
{
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) || strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        strcpy(text, "1970-01-01T00:00:00Z");
    return text;
}

json_t *kt_native_template(const struct kt_served *model)
{
    struct kt_chat_source source;
    bool is_own =
        model->chat && kt_tokenizer_chat(model->tokenizer, 0, &source) && source.file == model->chat_file;
    return is_own ? kt_json_text(source.text, source.length) : json_string("");
}

bool kt_native_send(struct kt_job *job, const char *before, json_t *object, const char *behind)
{
    char *text = object ? kt_json_dump(object, JSON_COMPACT) : NULL;
    json_decref(object);
    bool done = text && kt_buffer_add_text(job->out, before) && kt_buffer_add_text(job->out, text) &&
                kt_buffer_add_text(job->out, behind);
    free(text);
    return done;
}

/* ---- gaps ---- */

/* Tokens around a gap, by family: what stands before it, behind it, and where its text begins. */
struct gap {
    const char *prefix, *suffix, *middle;
    bool is_swapped; /* what stands behind comes first */
};
static const struct gap gaps[] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false},
                                  {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},
                                  {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false},
                                  {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", false},
                                  {"<\xef\xbd\x9c"
                                   "fim\xe2\x96\x81"
                                   "begin\xef\xbd\x9c>",
                                   "<\xef\xbd\x9c"
                                   "fim\xe2\x96\x81hole\xef\xbd\x9c>",
                                   "<\xef\xbd\x9c"
                                   "fim\xe2\x96\x81"
                                   "end\xef\xbd\x9c>",
                                   false},
                                  {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>", false},
                                  {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", true}};
/* They end such a text, beside what ends any. */
static const char *const ends[] = {"<|endoftext|>", "<|fim_pad|>", "<|repo_name|>",    "<|file_sep|>",
                                   "<fim_pad>",     "<file_sep>",  "\xe2\x96\x81<EOT>"};

static int32_t find(const struct kt_served *model, const char *text)
{
    return kt_tokenizer_find(model->tokenizer, text, strlen(text));
}

static const struct gap *find_gap(const struct kt_served *model)
{
    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
        if (find(model, gaps[i].prefix) >= 0 && find(model, gaps[i].suffix) >= 0 &&
            find(model, gaps[i].middle) >= 0)
            return &gaps[i];
    return NULL;
}

bool kt_native_infills(const struct kt_served *model)
{
    return find_gap(model) != NULL;
}

/* The ids of a token, or of a text without control tokens. */
static bool add_ids(const struct kt_served *model, json_t *to, const char *token, const char *text,
                    struct kt_problem *problem)
{
    const struct kt_text_part part = {.text = text, .length = strlen(text), .is_content = 1};
    struct kt_error error;
    int32_t *ids;
    uint64_t n_ids;
    if (token && json_array_append_new(to, json_integer(find(model, token))) != 0)
        return kt_problem_memory(problem);
    if (!*text)
        return true;
    if (kt_tokenizer_encode(model->tokenizer, &part, 1, 0, &ids, &n_ids, &error) != KT_OK)
        return kt_problem_error(problem, 400, &error);
    bool done = true;
    for (uint64_t i = 0; done && i < n_ids; i++)
        done = json_array_append_new(to, json_integer(ids[i])) == 0;
    kt_ids_free(ids);
    return done || kt_problem_memory(problem);
}

/* Other files before the one with the gap, as models with <|file_sep|> were taught; others get their texts.
 */
static bool add_extra(const struct kt_served *model, json_t *to, const json_t *extra,
                      struct kt_problem *problem)
{
    const char *between = find(model, "<|file_sep|>") >= 0 ? "<|file_sep|>" : NULL;
    const json_t *file;
    size_t i;
    json_array_foreach (extra, i, file) {
        const char *name = json_string_value(json_object_get(file, "filename"));
        const char *text = json_string_value(json_object_get(file, "text"));
        if (!text)
            return kt_problem_field(problem, "input_extra", "'input_extra[%zu]' needs a string 'text'", i);
        if (!add_ids(model, to, between, name ? name : "file", problem) ||
            !add_ids(model, to, NULL, "\n", problem) || !add_ids(model, to, NULL, text, problem))
            return false;
    }
    return json_array_size(extra) == 0 || add_ids(model, to, between, between ? "file\n" : "\n", problem);
}

bool kt_native_infill(const struct kt_served *model, json_t *to, const struct kt_gap *texts,
                      struct kt_problem *problem)
{
    const struct gap *gap = find_gap(model);
    struct kt_tokenizer_info info;
    json_t *ids = json_array(), *stops = json_array();
    kt_tokenizer_info(model->tokenizer, &info);
    if (!ids || !stops || json_object_set_new(to, "prompt", ids) != 0 ||
        json_object_set_new(to, "stop_token_ids", stops) != 0)
        return kt_problem_memory(problem);
    if (!gap)
        return kt_problem_field(problem, texts->param,
                                "'%s' is not supported: the model's vocabulary has no tokens for gaps",
                                texts->param);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (find(model, ends[i]) >= 0)
            (void)json_array_append_new(stops, json_integer(find(model, ends[i])));
    if (info.adds_bos && info.bos_token_id >= 0)
        (void)json_array_append_new(ids, json_integer(info.bos_token_id));
    if (!add_extra(model, ids, texts->extra, problem))
        return false;
    bool done = !gap->is_swapped || add_ids(model, ids, gap->suffix, texts->suffix, problem);
    done = done && add_ids(model, ids, gap->prefix, texts->prefix, problem) &&
           add_ids(model, ids, NULL, texts->more, problem);
    if (done && !gap->is_swapped)
        done = add_ids(model, ids, gap->suffix, texts->suffix, problem) &&
               add_ids(model, ids, gap->middle, "", problem);
    return done;
}

json_t *kt_native_suffix(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    const json_t *suffix = json_object_get(body, "suffix"), *prompt = json_object_get(body, "prompt");
    if (json_string_length(suffix) == 0 || !json_is_string(prompt))
        return body; /* anything but text is rejected later */
    const char *texts[] = {json_string_value(prompt), json_string_value(suffix)};
    json_t *filled = json_copy(body);
    const struct kt_gap gap = {.prefix = texts[0], .suffix = texts[1], .more = "", .param = "suffix"};
    bool done =
        filled && json_object_del(filled, "suffix") == 0 && kt_native_infill(model, filled, &gap, problem);
    json_decref(body);
    if (done)
        return filled;
    json_decref(filled);
    return NULL;
}

/* ---- answers ---- */

/* 1 is off, as 0 is of a filter here. */
static double or_one(double value)
{
    return value > 0 ? value : 1;
}

/* -1 is all, as 0 is of a window here. */
static json_int_t or_all(uint64_t n)
{
    return n > 0 ? (json_int_t)n : -1;
}

static json_t *make_settings(const struct kt_sampling_params *sampling, int64_t max_tokens)
{
    return json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I}",
                     "temperature", sampling->temperature, "top_k", (json_int_t)sampling->top_k, "top_p",
                     or_one(sampling->top_p), "min_p", sampling->min_p, "typical_p",
                     or_one(sampling->typical_p), "repeat_penalty", or_one(sampling->repetition_penalty),
                     "presence_penalty", sampling->presence_penalty, "frequency_penalty",
                     sampling->frequency_penalty, "n_predict", (json_int_t)(max_tokens > 0 ? max_tokens : -1),
                     "repeat_last_n", or_all(sampling->penalty_last_n), "top_n_sigma",
                     sampling->top_n_sigma > 0 ? sampling->top_n_sigma : -1.0, "xtc_probability",
                     sampling->xtc_probability, "xtc_threshold",
                     sampling->xtc_threshold > 0 ? sampling->xtc_threshold : 0.1, "dry_multiplier",
                     sampling->dry_multiplier, "dry_base", sampling->dry_base > 0 ? sampling->dry_base : 1.75,
                     "dry_allowed_length",
                     (json_int_t)(sampling->dry_allowed_length > 0 ? sampling->dry_allowed_length : 2),
                     "dry_penalty_last_n", or_all(sampling->dry_last_n));
}

/* A part of an answer; takes the reference to its text. */
static json_t *make_part(struct kt_answer *answer, json_t *text, bool is_last)
{
    json_t *part = json_pack("{s:i, s:o, s:o, s:b, s:i, s:I, s:I}", "index", (int)answer->number, "content",
                             text, "tokens", answer->tokens ? answer->tokens : json_array(), "stop", is_last,
                             "id_slot", -1, "tokens_predicted", (json_int_t)answer->n_tokens,
                             "tokens_evaluated", (json_int_t)answer->prompt->n_ids);
    if (answer->tokens)
        answer->tokens = json_array();
    if (json_array_size(answer->logprobs) > 0) {
        (void)json_object_set(part, "completion_probabilities", answer->logprobs);
        json_decref(answer->logprobs);
        answer->logprobs = json_array();
    }
    return part;
}

static bool add_to_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block,
                         const char *text, uint64_t length)
{
    (void)block;
    return kt_native_send(job, "data: ", make_part(answer, kt_json_text(text, length), false), "\n\n");
}

static json_t *make_prompt(const struct kt_job *job, const struct kt_answer *answer)
{
    const struct kt_prompt *prompt = answer->prompt;
    uint64_t length;
    char *text;
    if (kt_tokenizer_decode(job->model->tokenizer, prompt->ids, prompt->n_ids, 0, &text, &length, NULL) !=
        KT_OK)
        return NULL;
    json_t *json = kt_json_text(text, length);
    kt_text_free(text);
    return json;
}

/* Those fields that the request lists: "a/b" is the member b of a, under this name. */
static json_t *choose_fields(json_t *whole, const json_t *list)
{
    json_t *chosen = json_object();
    const json_t *name;
    size_t i;
    json_array_foreach (list, i, name) {
        const char *path = json_string_value(name);
        json_t *value = path ? whole : NULL;
        while (value && *path) {
            size_t length = strcspn(path, "/");
            value = json_object_getn(value, path, length);
            path += length + (path[length] == '/');
        }
        if (value && value != whole)
            (void)json_object_set(chosen, json_string_value(name), value);
    }
    json_decref(whole);
    return chosen;
}

static json_t *make_last(const struct kt_job *job, struct kt_answer *answer, json_t *text)
{
    const json_t *list = json_object_get(json_object_get(job->ask.body, KT_ECHO), "response_fields");
    const struct kt_stop_text *word = answer->stop_number >= 0 ? &job->ask.stops[answer->stop_number] : NULL;
    const char *why = word ? "word" : strcmp(answer->finish, "length") == 0 ? "limit" : "eos";
    json_t *last = make_part(answer, text, true);
    json_t *more =
        json_pack("{s:o, s:o, s:o, s:b, s:s, s:o, s:I, s:o}", "model",
                  kt_json_text(job->ask.model, strlen(job->ask.model)), "prompt", make_prompt(job, answer),
                  "generation_settings", make_settings(&job->ask.sampling, job->ask.max_tokens), "truncated",
                  0, "stop_type", why, "stopping_word",
                  word ? kt_json_text(word->text, word->length) : json_string(""), "tokens_cached",
                  (json_int_t)answer->end.n_cached, "timings", kt_shape_timings(job));
    bool done = last && more && json_object_update(last, more) == 0;
    json_decref(more);
    if (done)
        return json_array_size(list) > 0 ? choose_fields(last, list) : last;
    json_decref(last);
    return NULL;
}

static bool send_finish(struct kt_job *job, struct kt_answer *answer)
{
    (void)job, (void)answer;
    return true; /* with the figures, which are known when the scheduler has let the request go */
}

static bool send_end(struct kt_job *job)
{
    bool done = true;
    for (size_t i = 0; done && i < job->n_answers; i++)
        done = kt_native_send(job, "data: ", make_last(job, &job->answers[i], json_string("")), "\n\n");
    return done;
}

static bool send_error(struct kt_job *job)
{
    return kt_native_send(job, "data: ", kt_problem_json(&job->problem), "\n\n");
}

/* One object, or a list where there are several. */
static json_t *make_reply(struct kt_job *job)
{
    json_t *list = json_array();
    for (size_t i = 0; i < job->n_answers; i++) {
        struct kt_answer *answer = &job->answers[i];
        json_t *text = answer->n_blocks > 0 ? kt_shape_text(&answer->blocks[0].text) : json_string("");
        if (json_array_append_new(list, make_last(job, answer, text)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    json_t *reply = job->n_answers == 1 ? json_incref(json_array_get(list, 0)) : json_incref(list);
    json_decref(list);
    return reply;
}

#define WRITERS                                                                                           \
    .is_endless = true, .lists_entries = true, .id_prefix = "cmpl-", .stop = "stop", .add = add_to_block, \
    .finish = send_finish, .end = send_end, .error = send_error, .reply = make_reply

static const struct kt_dialect of_completions = {.translate = kt_llama_translate, WRITERS};
static const struct kt_dialect of_infills = {.translate = kt_llama_translate_infill, WRITERS};

bool kt_answer_llama_completion(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &of_completions);
}

bool kt_answer_infill(struct kt_exchange *exchange)
{
    return kt_job_answer(exchange, &of_infills);
}

/* ---- what there is ---- */

static json_t *make_token(const struct kt_served *model, int32_t id)
{
    struct kt_token token;
    return id >= 0 && kt_tokenizer_token(model->tokenizer, id, &token, NULL) == KT_OK
               ? kt_json_text(token.text, token.length)
               : json_string("");
}

bool kt_answer_props(struct kt_exchange *exchange)
{
    const struct kt_served *model = exchange->model;
    struct kt_tokenizer_info info;
    kt_tokenizer_info(model->tokenizer, &info);
    json_t *name = kt_json_text(model->names[0], strlen(model->names[0]));
    json_t *settings = json_pack("{s:I, s:o}", "n_ctx", (json_int_t)model->info.max_tokens, "params",
                                 make_settings(&model->sampling, -1));
    return kt_reply_json(exchange, 200,
                         json_pack("{s:o, s:I, s:O, s:o, s:{s:b, s:b}, s:o, s:o, s:o, s:s}",
                                   "default_generation_settings", settings, "total_slots",
                                   (json_int_t)model->max_running, "model_alias", name, "model_path", name,
                                   "modalities", "vision", 0, "audio", 0, "chat_template",
                                   kt_native_template(model), "bos_token",
                                   make_token(model, info.bos_token_id), "eos_token",
                                   make_token(model, info.eos_token_id), "build_info",
                                   "kt-kernel " KT_VERSION));
}

/* There are none (scheduler.h): as many as can be computed at once are shown, and of them those that are. */
bool kt_answer_slots(struct kt_exchange *exchange)
{
    struct kt_served *model = exchange->model;
    struct kt_scheduler_stats stats;
    json_t *list = json_array();
    kt_models_stats(&exchange->server->models, model, &stats);
    for (uint64_t i = 0; list && i < model->max_running; i++)
        (void)json_array_append_new(list, json_pack("{s:I, s:I, s:b, s:b}", "id", (json_int_t)i, "n_ctx",
                                                    (json_int_t)model->info.max_tokens, "speculative", 0,
                                                    "is_processing", i < stats.running));
    return kt_reply_json(exchange, 200, list);
}

/* As vLLM has it: what a client needs to do as the tokenizer does. */
bool kt_answer_tokenizer_info(struct kt_exchange *exchange)
{
    const struct kt_served *model = exchange->model;
    struct kt_tokenizer_info info;
    kt_tokenizer_info(model->tokenizer, &info);
    json_t *reply = json_pack("{s:s, s:I, s:I, s:o, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                              "model_max_length", (json_int_t)model->info.max_tokens, "vocab_size",
                              (json_int_t)model->n_vocabulary, "chat_template", kt_native_template(model),
                              "add_bos_token", info.adds_bos != 0, "add_eos_token", info.adds_eos != 0);
    const struct {
        const char *name;
        int32_t id;
    } tokens[] = {{"bos_token", info.bos_token_id},
                  {"eos_token", info.eos_token_id},
                  {"unk_token", info.unk_token_id},
                  {"pad_token", info.pad_token_id}};
    for (size_t i = 0; reply && i < sizeof(tokens) / sizeof(tokens[0]); i++)
        (void)json_object_set_new(reply, tokens[i].name,
                                  tokens[i].id >= 0 ? make_token(model, tokens[i].id) : json_null());
    return kt_reply_json(exchange, 200, reply);
}
