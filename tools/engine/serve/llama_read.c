/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama_read.c - what a request of llama-server's /completion and /infill asks for, as a completion of
 * OpenAI's. Each field that llama-server documents is read here or by kt_ask_read, or rejected if it asks for
 * something that is not done here; none of them is ignored that would make the answer another one.
 */
#include "tools/engine/base/load.h"
#include "tools/engine/serve/native.h"

#include <stdio.h>
#include <string.h>

struct given {
    json_t *extra;
    const char *input_prefix, *input_suffix, *prompt;
    int64_t n_predict, n_probs;
    double temperature, top_n_sigma;
};

static const struct kt_field fields[] =
    {{"n_predict", KT_FIELD_INT, offsetof(struct given, n_predict), -2, INT32_MAX},
     {"n_probs", KT_FIELD_INT, offsetof(struct given, n_probs), 0, 20},
     {"temperature", KT_FIELD_REAL, offsetof(struct given, temperature), -KT_SAMPLING_MOST, 2},
     {"top_n_sigma", KT_FIELD_REAL, offsetof(struct given, top_n_sigma), -KT_SAMPLING_MOST, 1000},
     {.name = NULL}};
static const struct kt_field of_gaps[] = {{"input_extra", KT_FIELD_LIST, offsetof(struct given, extra), 0, 0},
                                          {"input_prefix", KT_FIELD_TEXT,
                                           offsetof(struct given, input_prefix), 0, 0},
                                          {"input_suffix", KT_FIELD_TEXT,
                                           offsetof(struct given, input_suffix), 0, 0},
                                          {"prompt", KT_FIELD_TEXT, offsetof(struct given, prompt), 0, 0},
                                          {.name = NULL}};

static const struct kt_name names[] = {{"repeat_penalty", "repetition_penalty"},
                                       {"typ_p", "typical_p"},
                                       {"n_probs", "logprobs"},
                                       {"n_cmpl", "n"},
                                       {NULL, NULL}};

/* ---- what is not done here ---- */

/* Is this the value that switches a field off? */
static bool is_off(const json_t *value)
{
    const json_t *one;
    size_t i;
    json_array_foreach (value, i, one) { /* adapters */
        if (!json_is_number(json_object_get(one, "scale")) ||
            json_number_value(json_object_get(one, "scale")) != 0)
            return false;
    }
    return json_is_array(value) || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static bool refuse_others(const json_t *body, struct kt_problem *problem)
{
    static const char *const others[] = {"dynatemp_range",      "mirostat",          "lora",
                                         "post_sampling_probs", "timings_per_token", "image_data",
                                         "system_prompt",       "multimodal_data"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const json_t *value = json_object_get(body, others[i]);
        if (value && !is_off(value))
            return kt_problem_field(problem, others[i], "'%s' is not supported", others[i]);
    }
    const json_t *keep = json_object_get(body, "min_keep"); /* every filter keeps one */
    return is_off(keep) || !keep || json_number_value(keep) == 1 ||
           kt_problem_field(problem, "min_keep", "'min_keep' can only be 0 or 1");
}

/* ---- samplers ---- */

/* In the order in which they are applied, with the value that switches them off. */
static const struct sampler {
    const char *name, *fields[4];
    double off;
} samplers[] = {{"penalties", {"repeat_last_n"}, 0},
                {"dry", {"dry_multiplier"}, 0},
                {"top_n_sigma", {"top_n_sigma"}, 0},
                {"top_k", {"top_k"}, 0},
                {"typ_p", {"typical_p", "typ_p"}, 1},
                {"typical_p", {"typical_p", "typ_p"}, 1},
                {"top_p", {"top_p"}, 1},
                {"min_p", {"min_p"}, 0},
                {"xtc", {"xtc_probability"}, 0},
                {"temperature", {"temperature"}, 1}};
enum { N_SAMPLERS = sizeof(samplers) / sizeof(samplers[0]), TYPICAL = 4 };

/* Those that the list leaves out are off. The order of steps is given (<kt/sampling.h>), so another one is
 * rejected. */
static bool read_samplers(json_t *body, struct kt_problem *problem)
{
    const json_t *list = json_object_get(body, "samplers"), *one;
    bool is_on[N_SAMPLERS] = {false};
    size_t i, at = 0;
    if (!list || json_is_null(list))
        return true;
    if (!json_is_array(list))
        return kt_problem_field(problem, "samplers", "'samplers' must be an array of names, not %s",
                                kt_fields_type(list));
    json_array_foreach (list, i, one) {
        const char *name = json_string_value(one);
        size_t found = 0;
        while (found < N_SAMPLERS && !(name && strcmp(name, samplers[found].name) == 0))
            found++;
        if (found == N_SAMPLERS)
            return kt_problem_field(problem, "samplers", "'samplers[%zu]' is not supported: %.40s", i,
                                    name ? name : kt_fields_type(one));
        if (found < at)
            return kt_problem_field(problem, "samplers",
                                    "'samplers' puts '%s' behind '%s', but it is applied before it, and once",
                                    name, samplers[at - 1].name);
        is_on[found] = true;
        at = found + 1;
    }
    is_on[TYPICAL] = is_on[TYPICAL + 1] = is_on[TYPICAL] || is_on[TYPICAL + 1];
    for (i = 0; i < N_SAMPLERS; i++)
        for (size_t k = 0; !is_on[i] && samplers[i].fields[k]; k++)
            if (json_object_set_new(body, samplers[i].fields[k], json_real(samplers[i].off)) != 0)
                return kt_problem_memory(problem);
    return true;
}

/* ---- biases ---- */

#define MOST_BIAS 100.0 /* below 0 it is a ban */

/* Adds a bias to that of an id; a ban stays one. */
static bool add_bias(json_t *object, int64_t id, const json_t *bias)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%lld", (long long)id);
    double sum = json_is_false(bias) ? -MOST_BIAS : json_number_value(bias);
    sum += json_number_value(json_object_get(object, key));
    sum = sum < -MOST_BIAS ? -MOST_BIAS : sum > MOST_BIAS ? MOST_BIAS : sum;
    return json_object_set_new(object, key, json_real(sum)) == 0;
}

/* Of each token of a text. */
static bool add_biases(const struct kt_served *model, json_t *object, const char *text, size_t length,
                       const json_t *bias, struct kt_problem *problem)
{
    const struct kt_text_part part = {.text = text, .length = length};
    struct kt_error error;
    int32_t *ids;
    uint64_t n_ids;
    if (kt_tokenizer_encode(model->tokenizer, &part, 1, 0, &ids, &n_ids, &error) != KT_OK)
        return kt_problem_error(problem, 400, &error);
    bool done = true;
    for (uint64_t i = 0; i < n_ids; i++)
        done = done && add_bias(object, ids[i], bias);
    kt_ids_free(ids);
    return done || kt_problem_memory(problem);
}

static bool is_bias(const json_t *bias)
{
    double value = json_number_value(bias);
    return json_is_false(bias) || (json_is_number(bias) && value >= -MOST_BIAS && value <= MOST_BIAS);
}

/* A list of pairs, or an object: of an id or a text, a number or false, which is a ban. */
static bool read_bias(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    json_t *given = json_object_get(body, "logit_bias"), *object, *one;
    const char *key;
    size_t i;
    bool done = true;
    if (!json_is_array(given) && !json_is_object(given))
        return true;
    object = json_object();
    json_array_foreach (given, i, one) {
        const json_t *of = json_array_get(one, 0), *bias = json_array_get(one, 1);
        if (done && (!(json_is_integer(of) || json_is_string(of)) || !is_bias(bias)))
            done =
                kt_problem_field(problem, "logit_bias",
                                 "'logit_bias[%zu]' must be an id or a text, and a number in -100 .. 100", i);
        else if (done && json_is_string(of))
            done = add_biases(model, object, json_string_value(of), json_string_length(of), bias, problem);
        else
            done = done && (add_bias(object, json_integer_value(of), bias) || kt_problem_memory(problem));
    }
    json_object_foreach (given, key, one) {
        bool is_id = *key && strspn(key, "0123456789") == strlen(key);
        if (done && !is_bias(one))
            done = kt_problem_field(problem, "logit_bias",
                                    "'logit_bias' of '%.40s' must be a number in -100 .. 100", key);
        else if (done && !is_id)
            done = add_biases(model, object, key, strlen(key), one, problem);
        else if (done)
            done = json_object_set_new(object, key,
                                       json_real(json_is_false(one) ? -MOST_BIAS : json_number_value(one))) ==
                       0 ||
                   kt_problem_memory(problem);
    }
    if (done)
        return json_object_set_new(body, "logit_bias", object) == 0 || kt_problem_memory(problem);
    json_decref(object);
    return false;
}

/* ---- prompts ---- */

/* Texts and ids in one list, as ids. NULL after a problem. */
static json_t *join_mixed(const struct kt_served *model, const json_t *list, struct kt_problem *problem)
{
    json_t *ids = json_array(), *one;
    size_t i;
    bool done = ids != NULL || kt_problem_memory(problem);
    json_array_foreach (list, i, one) {
        const struct kt_text_part part = {.text = json_string_value(one), .length = json_string_length(one)};
        struct kt_error error;
        int32_t *of_text = NULL;
        uint64_t n = 0;
        if (done && !json_is_string(one) && !json_is_integer(one))
            done = kt_problem_field(problem, "prompt", "'prompt' holds %s among texts and ids",
                                    kt_fields_type(one));
        if (done && json_is_integer(one))
            done = json_array_append(ids, one) == 0 || kt_problem_memory(problem);
        else if (done)
            done = kt_tokenizer_encode(model->tokenizer, &part, 1, i == 0 ? KT_ENCODE_BOS : 0, &of_text, &n,
                                       &error) == KT_OK ||
                   kt_problem_error(problem, 400, &error);
        for (uint64_t k = 0; k < n; k++)
            done = done &&
                   (json_array_append_new(ids, json_integer(of_text[k])) == 0 || kt_problem_memory(problem));
        kt_ids_free(of_text);
    }
    if (done)
        return ids;
    json_decref(ids);
    return NULL;
}

static bool is_mixed(const json_t *list)
{
    size_t n_texts = 0, n_ids = 0, i;
    const json_t *one;
    json_array_foreach (list, i, one) {
        n_texts += json_is_string(one);
        n_ids += json_is_number(one);
    }
    return n_texts > 0 && n_ids > 0;
}

/* One prompt in a form that OpenAI's completions take, a new reference; NULL after a problem. */
static json_t *read_prompt(const struct kt_served *model, json_t *prompt, struct kt_problem *problem)
{
    json_t *text = json_object_get(prompt, "prompt_string");
    if (is_mixed(prompt))
        return join_mixed(model, prompt, problem);
    if (!text)
        return json_incref(prompt);
    if (!refuse_others(prompt, problem))
        return NULL;
    return json_incref(text);
}

static bool read_prompts(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    json_t *given = json_object_get(body, "prompt"), *list, *one;
    size_t i;
    if (!json_is_array(given) || is_mixed(given)) {
        json_t *prompt = given ? read_prompt(model, given, problem) : NULL;
        return !given ||
               (prompt && (json_object_set_new(body, "prompt", prompt) == 0 || kt_problem_memory(problem)));
    }
    list = json_array();
    json_array_foreach (given, i, one) {
        json_t *prompt = list ? read_prompt(model, one, problem) : NULL;
        if (!prompt || json_array_append_new(list, prompt) != 0) {
            json_decref(list);
            return prompt || list ? false : kt_problem_memory(problem);
        }
    }
    return json_object_set_new(body, "prompt", list) == 0 || kt_problem_memory(problem);
}

/* ---- all of it ---- */

/* What the writers ask for. */
static bool set_echo(json_t *body, struct kt_problem *problem)
{
    json_t *list = json_object_get(body, "response_fields"), *tokens = json_object_get(body, "return_tokens");
    if (list && !json_is_null(list) && !json_is_array(list))
        return kt_problem_field(problem, "response_fields", "'response_fields' must be an array, not %s",
                                kt_fields_type(list));
    if (tokens && !json_is_null(tokens) && !json_is_boolean(tokens))
        return kt_problem_field(problem, "return_tokens", "'return_tokens' must be a boolean, not %s",
                                kt_fields_type(tokens));
    json_t *echo = json_pack("{s:O*, s:O*}", "response_fields", list, "return_tokens", tokens);
    (void)json_object_del(body, "response_fields");
    (void)json_object_del(body, "return_tokens");
    return json_object_set_new(body, KT_ECHO, echo) == 0 || kt_problem_memory(problem);
}

/* OpenAI's names in place of llama-server's; what both call the same stays, and so does what is not known. */
static bool rename_fields(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    struct given given = {.n_predict = -1};
    double seed = json_number_value(json_object_get(body, "seed"));
    if (!refuse_others(body, problem) || !read_samplers(body, problem) ||
        !kt_fields_read(body, fields, &given, problem) || !kt_native_rename(body, body, names, problem) ||
        !read_bias(model, body, problem) || !set_echo(body, problem))
        return false;
    if (given.n_predict == 0)
        return kt_problem_field(problem, "n_predict", "'n_predict' is 0; it must be at least 1, or -1");
    if (seed < 0 || seed == UINT32_MAX) /* any */
        (void)json_object_del(body, "seed");
    if (given.temperature < 0) /* greedily */
        (void)json_object_set_new(body, "temperature", json_real(0));
    if (given.top_n_sigma < 0)
        (void)json_object_set_new(body, "top_n_sigma", json_real(0));
    if (given.n_predict > 0)
        (void)json_object_set_new(body, "max_tokens", json_integer(given.n_predict));
    /* Read above, or without a meaning here: hints, and what belongs to a step that is off. */
    static const char *const read[] =
        {"n_predict",       "repeat_penalty",    "typ_p",         "n_probs",
         "n_cmpl",          "cache_prompt",      "id_slot",       "samplers",
         "dynatemp_range",  "mirostat",          "lora",          "post_sampling_probs",
         "min_keep",        "timings_per_token", "image_data",    "system_prompt",
         "multimodal_data", "dynatemp_exponent", "mirostat_tau",  "mirostat_eta",
         "n_keep",          "n_discard",         "n_cache_reuse", "t_max_prompt_ms"};
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        (void)json_object_del(body, read[i]);
    return true;
}

json_t *kt_llama_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    if (rename_fields(model, body, problem) && read_prompts(model, body, problem))
        return body;
    json_decref(body);
    return NULL;
}

json_t *kt_llama_translate_infill(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    struct given given = {.input_prefix = "", .input_suffix = "", .prompt = ""};
    json_t *to = NULL;
    if (kt_fields_read(body, of_gaps, &given, problem) && rename_fields(model, body, problem)) {
        const struct kt_gap gap = {given.input_prefix, given.prompt, given.input_suffix, given.extra,
                                   "input_suffix"};
        to = json_copy(body);
        (void)json_object_del(to, "input_prefix");
        (void)json_object_del(to, "input_suffix");
        (void)json_object_del(to, "input_extra");
        if (!to || !kt_native_infill(model, to, &gap, problem)) {
            json_decref(to);
            to = NULL;
        }
    }
    json_decref(body);
    return to;
}
