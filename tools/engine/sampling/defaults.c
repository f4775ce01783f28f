/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c - settings that a checkpoint advises: keys of GGUF files, generation_config.json. */
#include "tools/engine/base/fail.h"
#include "tools/engine/sampling/sampler.h"

#include <jansson.h>
#include <kt/kt.h>
#include <math.h>
#include <string.h>

#define PREFIX "general.sampling."
#define FILE_NAME "generation_config.json"

/* ---- GGUF ------------------------------------------------------------------------------------- */

struct real_key {
    const char *name;
    size_t offset;
};

#define KEY(name, field)                                 \
    {                                                    \
        name, offsetof(struct kt_sampling_params, field) \
    }

static const struct real_key *find_key(const struct real_key *keys, const char *name)
{
    while (keys->name && strcmp(keys->name, name) != 0)
        keys++;
    return keys->name ? keys : NULL;
}

static void set_real(struct kt_sampling_params *params, const struct real_key *key, double number)
{
    memcpy((char *)params + key->offset, &number, sizeof(number));
}

/* The filters of llama.cpp in the order in which they are here. */
struct filter {
    const char *name, *alias;
    size_t offset; /* of the field by which it is switched on */
    double off;
};
static const struct filter filters[] = {
    {"penalties", NULL, offsetof(struct kt_sampling_params, repetition_penalty), 1},
    {"dry", NULL, offsetof(struct kt_sampling_params, dry_multiplier), 0},
    {"top_n_sigma", NULL, offsetof(struct kt_sampling_params, top_n_sigma), 0},
    {"top_k", NULL, offsetof(struct kt_sampling_params, top_k), 0},
    {"typ_p", "typical_p", offsetof(struct kt_sampling_params, typical_p), 0},
    {"top_p", NULL, offsetof(struct kt_sampling_params, top_p), 0},
    {"min_p", NULL, offsetof(struct kt_sampling_params, min_p), 0},
    {"xtc", NULL, offsetof(struct kt_sampling_params, xtc_probability), 0},
    {"temperature", NULL, offsetof(struct kt_sampling_params, temperature), 1},
};
#define N_FILTERS (sizeof(filters) / sizeof(filters[0]))

static bool is_named(const struct filter *filter, const char *name, size_t length)
{
    const char *names[] = {filter->name, filter->alias};
    for (size_t i = 0; i < 2; i++)
        if (names[i] && strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return true;
    return false;
}

/* Switches off what the sequence "penalties;top_k;temperature" does not name. */
static enum kt_status apply_sequence(struct kt_sampling_params *params, const char *text, size_t length,
                                     struct kt_error *error)
{
    size_t at = 0;
    bool is_on[N_FILTERS] = {false};
    for (size_t from = 0; from < length;) {
        const char *end = memchr(text + from, ';', length - from);
        size_t to = end ? (size_t)(end - text) : length;
        while (at < N_FILTERS && !is_named(filters + at, text + from, to - from))
            at++;
        if (at == N_FILTERS)
            return kt_engine_fail(
                error, KT_E_UNSUPPORTED,
                PREFIX "sequence is '%.*s', which is not supported: '%.*s' is unknown or in another position",
                (int)(length < 200 ? length : 200), text, (int)(to - from < 40 ? to - from : 40),
                text + from);
        is_on[at++] = true;
        from = to + 1;
    }
    for (size_t i = 0; i < N_FILTERS; i++) {
        if (is_on[i])
            continue;
        if (filters[i].offset == offsetof(struct kt_sampling_params, top_k))
            params->top_k = 0;
        else
            memcpy((char *)params + filters[i].offset, &filters[i].off, sizeof(filters[i].off));
    }
    return KT_OK;
}

static enum kt_status read_top_k(const struct kt_value *value, struct kt_sampling_params *params,
                                 struct kt_error *error)
{
    int64_t number;
    enum kt_status status = kt_value_int(value, 0, &number, error);
    if (status == KT_OK && number > UINT32_MAX)
        return kt_engine_fail(error, KT_E_FORMAT, PREFIX "top_k is %lld", (long long)number);
    if (status == KT_OK)
        params->top_k = number > 0 ? (uint32_t)number : 0;
    return status;
}

/* -1: all of the context; 0: the penalties are off. */
static enum kt_status read_window(const struct kt_value *value, struct kt_sampling_params *params,
                                  bool *is_off, struct kt_error *error)
{
    int64_t number;
    enum kt_status status = kt_value_int(value, 0, &number, error);
    if (status == KT_OK)
        params->penalty_last_n = number > 0 ? (uint64_t)number : 0;
    *is_off = status == KT_OK && number == 0;
    return status;
}

struct gguf_advice {
    bool is_any, has_temperature, has_no_penalties;
    struct kt_value sequence; /* key NULL: none */
};

static enum kt_status read_value(const struct kt_value *value, struct kt_sampling_params *params,
                                 struct gguf_advice *advice, struct kt_error *error)
{
    static const struct real_key reals[] = {KEY("temp", temperature),
                                            KEY("top_p", top_p),
                                            KEY("min_p", min_p),
                                            KEY("xtc_probability", xtc_probability),
                                            KEY("xtc_threshold", xtc_threshold),
                                            KEY("penalty_repeat", repetition_penalty),
                                            {.name = NULL}};
    const char *name = value->key + strlen(PREFIX);
    const struct real_key *real = find_key(reals, name);
    double number = 0;
    enum kt_status status = KT_OK;
    advice->is_any = true;
    if (real) {
        status = kt_value_real(value, 0, &number, error);
        if (status == KT_OK)
            set_real(params, real, number);
        advice->has_temperature |= strcmp(name, "temp") == 0;
        return status;
    }
    if (strcmp(name, "top_k") == 0)
        return read_top_k(value, params, error);
    if (strcmp(name, "penalty_last_n") == 0)
        return read_window(value, params, &advice->has_no_penalties, error);
    if (strcmp(name, "sequence") == 0) {
        advice->sequence = *value;
        return KT_OK;
    }
    if (strcmp(name, "mirostat_tau") == 0 || strcmp(name, "mirostat_eta") == 0)
        return KT_OK; /* settings of mirostat */
    if (strcmp(name, "mirostat") == 0) {
        status = kt_value_real(value, 0, &number, error);
        if (status != KT_OK || number == 0)
            return status;
    }
    return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s is not computed", value->key);
}

static enum kt_status read_gguf(struct kt_checkpoint *checkpoint, struct kt_sampling_params *params,
                                struct kt_error *error)
{
    struct gguf_advice advice = {.is_any = false};
    uint64_t n = kt_checkpoint_value_count(checkpoint), at = 0, length;
    enum kt_status status = KT_OK;
    const char *text;
    for (uint64_t i = 0; i < n && status == KT_OK; i++) {
        struct kt_value value;
        status = kt_checkpoint_value(checkpoint, i, &value, error);
        if (status == KT_OK && strncmp(value.key, PREFIX, strlen(PREFIX)) == 0)
            status = read_value(&value, params, &advice, error);
    }
    if (status == KT_OK && advice.is_any && !advice.has_temperature)
        params->temperature = 1;
    if (advice.has_no_penalties)
        params->repetition_penalty = 1;
    if (status == KT_OK && advice.sequence.key)
        status = kt_value_text(&advice.sequence, &at, &text, &length, error);
    if (status == KT_OK && advice.sequence.key)
        status = apply_sequence(params, text, (size_t)length, error);
    return status;
}

/* ---- generation_config.json ------------------------------------------------------------------- */

/* Keys that change what is drawn and are not computed, unless they have this number. */
static const struct {
    const char *name;
    double neutral;
} refused[] = {{"num_beams", 1},
               {"penalty_alpha", 0},
               {"epsilon_cutoff", 0},
               {"eta_cutoff", 0},
               {"top_h", 0},
               {"no_repeat_ngram_size", 0},
               {"encoder_repetition_penalty", 1},
               {"diversity_penalty", 0},
               {"guidance_scale", 1},
               {"min_length", 0},
               {"min_new_tokens", 0},
               {"dola_layers", 0},
               {"bad_words_ids", 0},
               {"sequence_bias", 0},
               {"suppress_tokens", 0},
               {"begin_suppress_tokens", 0},
               {"forced_bos_token_id", NAN},
               {"forced_eos_token_id", NAN},
               {"exponential_decay_length_penalty", 0},
               {"watermarking_config", 0}};

static bool is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value))
        return json_number_value(value) == neutral;
    return !value || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static enum kt_status refuse(const json_t *root, struct kt_error *error)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (!is_neutral(json_object_get(root, refused[i].name), refused[i].neutral))
            return kt_engine_fail(error, KT_E_UNSUPPORTED, FILE_NAME ": %s is not computed", refused[i].name);
    return KT_OK;
}

/* False: there is none, or *status says what is wrong with it. */
static bool read_number(const json_t *root, const char *key, double *number, enum kt_status *status,
                        struct kt_error *error)
{
    const json_t *value = json_object_get(root, key);
    if (*status != KT_OK || !value || json_is_null(value))
        return false;
    if (!json_is_number(value))
        *status = kt_engine_fail(error, KT_E_FORMAT, FILE_NAME ": %s is not a number", key);
    *number = json_number_value(value);
    return *status == KT_OK;
}

static enum kt_status read_root(const json_t *root, struct kt_sampling_params *params, struct kt_error *error)
{
    static const struct real_key reals[] = {KEY("top_p", top_p),
                                            KEY("min_p", min_p),
                                            KEY("typical_p", typical_p),
                                            KEY("repetition_penalty", repetition_penalty),
                                            {.name = NULL}};
    const json_t *samples = json_object_get(root, "do_sample");
    double number;
    enum kt_status status = refuse(root, error);
    for (const struct real_key *key = reals; key->name; key++)
        if (read_number(root, key->name, &number, &status, error))
            set_real(params, key, number);
    if (read_number(root, "top_k", &number, &status, error)) {
        if (!(number >= 0 && number <= UINT32_MAX) || number != floor(number))
            return kt_engine_fail(error, KT_E_FORMAT, FILE_NAME ": top_k is %g", number);
        params->top_k = (uint32_t)number;
    }
    if (read_number(root, "temperature", &number, &status, error))
        params->temperature = number;
    else if (json_is_true(samples))
        params->temperature = 1;
    if (json_is_false(samples))
        params->temperature = 0;
    else if (status == KT_OK && samples && !json_is_true(samples) && !json_is_null(samples))
        status = kt_engine_fail(error, KT_E_FORMAT, FILE_NAME ": do_sample is neither true nor false");
    return status;
}

static enum kt_status read_file(struct kt_checkpoint *checkpoint, struct kt_sampling_params *params,
                                struct kt_error *error)
{
    const void *data;
    uint64_t size;
    json_error_t place;
    enum kt_status status = kt_checkpoint_file(checkpoint, FILE_NAME, &data, &size, error);
    if (status == KT_E_NOT_FOUND)
        return KT_OK;
    if (status != KT_OK)
        return status;
    json_t *root = json_loadb(data, (size_t)size, JSON_ALLOW_NUL, &place);
    if (!root)
        return kt_engine_fail(error, KT_E_FORMAT, FILE_NAME ":%d: %s", place.line, place.text);
    status = read_root(root, params, error);
    json_decref(root);
    return status;
}

enum kt_status kt_sampling_defaults(struct kt_checkpoint *checkpoint, struct kt_sampling_params *params,
                                    struct kt_error *error)
{
    struct kt_checkpoint_info info;
    struct kt_sampling_params advised, unused;
    if (!checkpoint || !params || params->struct_size < sizeof(params->struct_size))
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_sampling_defaults: checkpoint or params is NULL, or params does not start "
                              "with KT_SAMPLING_PARAMS_INIT");
    size_t size = params->struct_size < sizeof(advised) ? params->struct_size : sizeof(advised);
    memset(&advised, 0, sizeof(advised));
    memcpy(&advised, params, size);
    kt_checkpoint_info(checkpoint, &info);
    bool is_gguf = strcmp(info.format, "gguf") == 0;
    enum kt_status status =
        is_gguf ? read_gguf(checkpoint, &advised, error) : read_file(checkpoint, &advised, error);
    if (status != KT_OK)
        return status;
    /* The caller's own arrays are checked when a sampler is made. */
    struct kt_sampling_params checked = advised;
    checked.n_logit_bias = checked.n_dry_breakers = 0;
    if (kt_params_resolve(&checked, INT32_MAX, &unused, error) != KT_OK)
        return kt_engine_fail_prefix(error, KT_E_FORMAT, "%s", is_gguf ? PREFIX "*" : FILE_NAME);
    memcpy(params, &advised, size);
    return KT_OK;
}
