/* SPDX-License-Identifier: Apache-2.0 */
/* test_sampling_limits.c - broken logits, settings out of range, what a checkpoint advises, memory. */
#include "tests/support/alloc_faults.h"
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include "tools/engine/sampling/sampler.h"
#include "tools/engine/sampling/vector.h"

#include <check.h>
#include <kt/sampling.h>
#include <kt/text.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

static struct kt_sampler *make(uint64_t vocabulary, const struct kt_sampling_params *params)
{
    struct kt_sampler *sampler;
    ck_assert_msg(kt_sampler_create(vocabulary, params, &sampler, &error) == KT_OK, "%s", error.message);
    return sampler;
}

/* ---- logits ----------------------------------------------------------------------------------- */

/* Settings by number, so that every path is taken. */
static struct kt_sampling_params params_of(int number)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    params.temperature = number > 0;
    params.top_k = number == 2 ? 3 : 0;
    params.top_p = number == 3 ? 0.5 : 0;
    params.typical_p = number == 4 ? 0.5 : 0;
    params.min_p = number == 5 ? 0.1 : 0;
    params.top_n_sigma = number == 6;
    params.xtc_probability = number == 7;
    params.n_top = number == 8 ? 5 : 0;
    params.presence_penalty = number == 9;
    return params;
}
#define SETTINGS 10

START_TEST(test_broken)
{
    static const uint64_t sizes[] = {1, 3, 64, 67, 131};
    struct kt_sampling_params params = params_of(_i);
    for (size_t s = 0; s < 5; s++) {
        uint64_t n = sizes[s];
        float *logits = calloc(n, sizeof(*logits));
        struct kt_sampler *sampler = make(n, &params);
        struct kt_choice choice = {.id = -7};
        char wanted[100];
        for (uint64_t at = 0; at < n; at++) {
            logits[at] = NAN;
            ck_assert_int_eq(kt_sampler_choose(sampler, logits, 17, NULL, &choice, &error), KT_E_BACKEND);
            snprintf(wanted, sizeof(wanted), "of %d logits at position 17 1 are NaN and 0 are +inf", (int)n);
            ck_assert_msg(strstr(error.message, wanted), "%s", error.message);
            snprintf(wanted, sizeof(wanted), "that of token %d:", (int)at);
            ck_assert_msg(strstr(error.message, wanted), "%s", error.message);
            logits[at] = INFINITY;
            ck_assert_int_eq(kt_sampler_choose(sampler, logits, 17, NULL, &choice, &error), KT_E_BACKEND);
            logits[at] = -INFINITY;
            ck_assert_int_eq(kt_sampler_choose(sampler, logits, 17, NULL, &choice, &error),
                             n > 1 ? KT_OK : KT_E_BACKEND);
            logits[at] = 0;
        }
        choice.id = -7;
        for (uint64_t i = 0; i < n; i++)
            logits[i] = -INFINITY;
        ck_assert_int_eq(kt_sampler_choose(sampler, logits, 4, NULL, &choice, &error), KT_E_BACKEND);
        ck_assert_msg(strstr(error.message, "logits at position 4 are all -inf"), "%s", error.message);
        ck_assert_int_eq(choice.id, -7);
        logits[n / 2] = -1e30f; /* and it goes on: the only one left */
        ck_assert_int_eq(kt_sampler_choose(sampler, logits, 5, NULL, &choice, &error), KT_OK);
        ck_assert_int_eq(choice.id, (int)(n / 2));
        kt_sampler_destroy(sampler);
        free(logits);
    }
}
END_TEST

START_TEST(test_nothing_left)
{
    const float logits[3] = {1, -INFINITY, 2};
    const struct kt_logit_bias bias[] = {{0, -INFINITY}, {2, -INFINITY}};
    uint64_t allowed = 2; /* what the model excludes */
    struct kt_sampling_params params = params_of(_i);
    struct kt_choice choice;
    struct kt_sampler *sampler = make(3, &params);
    ck_assert_int_eq(kt_sampler_choose(sampler, logits, 8, &allowed, &choice, &error), KT_E_RANGE);
    ck_assert_str_eq(error.message,
                     "no token is left at position 8: the mask forbid all that the model gives a chance");
    allowed = 4;
    ck_assert_int_eq(kt_sampler_choose(sampler, logits, 8, &allowed, &choice, &error), KT_OK);
    ck_assert_int_eq(choice.id, 2);
    kt_sampler_destroy(sampler);
    params.logit_bias = bias;
    params.n_logit_bias = 2;
    sampler = make(3, &params);
    ck_assert_int_eq(kt_sampler_choose(sampler, logits, 8, NULL, &choice, &error), KT_E_RANGE);
    ck_assert_msg(strstr(error.message, "logit_bias"), "%s", error.message);
    kt_sampler_destroy(sampler);
    params.n_logit_bias = 1;
    sampler = make(3, &params);
    ck_assert_int_eq(kt_sampler_choose(sampler, logits, 8, NULL, &choice, &error), KT_OK);
    ck_assert_int_eq(choice.id, 2);
    kt_sampler_destroy(sampler);
}
END_TEST

/* A vocabulary of one token, and logits at the ends of float32, by which nothing may overflow into NaN. */
START_TEST(test_extremes)
{
    static const float logits[][4] = {{3.4e38f, -3.4e38f, 3.4e38f, 0},
                                      {-3.4e38f, -3.4e38f, -3.4e38f, -3.4e38f},
                                      {1e-45f, -1e-45f, 0, -0.0f},
                                      {-INFINITY, 1, -INFINITY, -INFINITY}};
    static const double temperatures[] = {1e-300, 1e-9, 1, 1e9};
    struct kt_sampling_params params = params_of(_i);
    const struct kt_logit_bias bias[] = {{0, 3.4e38f}, {1, -3.4e38f}};
    struct kt_choice choice;
    params.repetition_penalty = 1e-9;
    params.logit_bias = bias;
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 8; i++) {
            if (params.temperature > 0)
                params.temperature = temperatures[t];
            params.n_logit_bias = i < 4 ? 0 : 2;
            struct kt_sampler *sampler = make(4, &params);
            ck_assert_int_eq(kt_sampler_accept(sampler, (const int32_t[]){0, 1}, 2, KT_ORIGIN_PROMPT, &error),
                             KT_OK);
            ck_assert_msg(kt_sampler_choose(sampler, logits[i % 4], 1, NULL, &choice, &error) == KT_OK, "%s",
                          error.message);
            ck_assert(choice.id >= 0 && choice.id < 4);
            ck_assert(logits[i % 4][choice.id] > -INFINITY);
            kt_sampler_destroy(sampler);
        }
    }
    params.n_logit_bias = 0;
    struct kt_sampler *sampler = make(1, &params);
    ck_assert_int_eq(kt_sampler_choose(sampler, logits[0], 1, &(uint64_t){1}, &choice, &error), KT_OK);
    ck_assert_int_eq(choice.id, 0);
    kt_sampler_destroy(sampler);
}
END_TEST

/* The exponential: the polynomial ends 1.2e-7 early, and its steps round some times. */
START_TEST(test_exponential)
{
    enum { N = 89 * 64 + 3 };
    static float logits[N], weights[N], block_max[N / 64 + 1];
    static double sums[N / 64 + 1];
    double total = 0;
    float max;
    for (int i = 0; i < N; i++) {
        logits[i] = 7 - (float)i / 64 - (float)(i % 7) / 4096;
        total += logits[i] - 7 < -87 ? 0 : exp((double)logits[i] - 7);
    }
    logits[N - 1] = -INFINITY;
    ck_assert(fabs(kt_logits_weights(logits, N, 7, 1, weights) / total - 1) < 4e-7);
    for (int i = 0; i < N; i++) {
        double x = (double)logits[i] - 7, wanted = x < -87 ? 0 : exp(x);
        ck_assert_msg(fabs((double)weights[i] - wanted) <= 4e-7 * wanted, "exp(%g) is %g", x,
                      (double)weights[i]);
    }
    ck_assert(kt_logits_scan(logits, N, block_max, &max));
    ck_assert(max == 7 && block_max[1] == logits[64]);
    total = 0;
    for (int i = 0; i < N; i++)
        total += exp(0.5 * ((double)logits[i] - 7));
    ck_assert(fabs(kt_logits_sums(logits, N, max, 0.5f, block_max, sums) / total - 1) < 4e-7);
}
END_TEST

/* ---- settings --------------------------------------------------------------------------------- */

#define FIELD(field) offsetof(struct kt_sampling_params, field)

START_TEST(test_ranges)
{
    static const struct {
        const char *name;
        size_t offset;
        double wrong[3];
    } fields[] = {{"temperature", FIELD(temperature), {-0.1, NAN, INFINITY}},
                  {"top_p", FIELD(top_p), {-0.1, 1.01, NAN}},
                  {"min_p", FIELD(min_p), {-0.1, 1.01, NAN}},
                  {"typical_p", FIELD(typical_p), {-0.1, 1.01, NAN}},
                  {"top_n_sigma", FIELD(top_n_sigma), {-1, NAN, INFINITY}},
                  {"xtc_probability", FIELD(xtc_probability), {-1, 1.1, NAN}},
                  {"xtc_threshold", FIELD(xtc_threshold), {-1, 1.1, NAN}},
                  {"repetition_penalty", FIELD(repetition_penalty), {-1, NAN, INFINITY}},
                  {"presence_penalty", FIELD(presence_penalty), {-INFINITY, NAN, INFINITY}},
                  {"frequency_penalty", FIELD(frequency_penalty), {-INFINITY, NAN, INFINITY}},
                  {"dry_multiplier", FIELD(dry_multiplier), {-1, NAN, INFINITY}},
                  {"dry_base", FIELD(dry_base), {0.5, NAN, INFINITY}}};
    struct kt_sampler *sampler;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (int j = 0; j < 3; j++) {
            struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
            memcpy((char *)&params + fields[i].offset, &fields[i].wrong[j], sizeof(double));
            ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_INVALID);
            ck_assert(strncmp(error.message, fields[i].name, strlen(fields[i].name)) == 0);
        }
    }
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    params.n_top = KT_MAX_TOP + 1;
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_INVALID);
}
END_TEST

START_TEST(test_arguments)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    struct kt_sampler *sampler;
    struct kt_choice choice;
    const int32_t wrong[] = {3, 10};
    struct kt_logit_bias bias = {10, 1};
    params.logit_bias = &bias;
    params.n_logit_bias = 1;
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_RANGE);
    bias = (struct kt_logit_bias){-1, 1};
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_RANGE);
    bias = (struct kt_logit_bias){1, NAN};
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_INVALID);
    params.logit_bias = NULL;
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_INVALID);
    params.n_logit_bias = 0;
    params.dry_breakers = wrong;
    params.n_dry_breakers = 2;
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_RANGE);
    params.n_dry_breakers = 1;
    ck_assert_int_eq(kt_sampler_create(0, &params, &sampler, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_sampler_create(1ull << 31, &params, &sampler, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_sampler_create(10, &params, NULL, &error), KT_E_INVALID);
    params.struct_size = 0;
    ck_assert_int_eq(kt_sampler_create(10, &params, &sampler, &error), KT_E_INVALID);
    params.struct_size = offsetof(struct kt_sampling_params, top_p); /* a caller of an older header */
    params.top_p = 7;
    sampler = make(10, &params);
    ck_assert_int_eq(kt_sampler_accept(sampler, wrong, 2, KT_ORIGIN_PROMPT, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_sampler_accept(sampler, wrong, 1, 2, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_sampler_accept(sampler, NULL, 1, KT_ORIGIN_PROMPT, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_sampler_choose(sampler, NULL, 0, NULL, &choice, &error), KT_E_INVALID);
    kt_sampler_destroy(sampler);
    kt_sampler_destroy(NULL);
    sampler = make(10, NULL);
    kt_sampler_destroy(sampler);
}
END_TEST

/* ---- advice ----------------------------------------------------------------------------------- */

static struct bytes file;

static void begin_file(uint64_t n_keys)
{
    file.size = 0;
    put_header(&file, 3, 1, n_keys + 1);
    put_key_string(&file, "general.architecture", "test");
}

static void put_real(const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_key(&file, key, KT_VALUE_F32, bits);
}

static enum kt_status advise_gguf(struct kt_sampling_params *params)
{
    struct kt_checkpoint *checkpoint;
    put_tensor(&file, "t", 1, (uint64_t[]){8}, 0, 0);
    put_padding(&file, 32);
    put_zeros(&file, 64);
    ck_assert_msg(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    enum kt_status status = kt_sampling_defaults(checkpoint, params, &error);
    kt_checkpoint_close(checkpoint);
    return status;
}

START_TEST(test_gguf)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    params.presence_penalty = 0.25;
    begin_file(0);
    ck_assert_int_eq(advise_gguf(&params), KT_OK);
    ck_assert(params.temperature == 0 && params.presence_penalty == 0.25);
    begin_file(9);
    put_real("general.sampling.temp", 0.75f);
    put_key(&file, "general.sampling.top_k", KT_VALUE_I32, 20);
    put_real("general.sampling.top_p", 0.875f);
    put_real("general.sampling.min_p", 0.125f);
    put_real("general.sampling.xtc_probability", 0.5f);
    put_real("general.sampling.xtc_threshold", 0.25f);
    put_key(&file, "general.sampling.penalty_last_n", KT_VALUE_I32, 64);
    put_real("general.sampling.penalty_repeat", 1.5f);
    put_key(&file, "general.sampling.mirostat", KT_VALUE_I32, 0);
    ck_assert_msg(advise_gguf(&params) == KT_OK, "%s", error.message);
    ck_assert(params.temperature == 0.75 && params.top_k == 20 && params.top_p == 0.875);
    ck_assert(params.min_p == 0.125 && params.xtc_probability == 0.5 && params.xtc_threshold == 0.25);
    ck_assert(params.penalty_last_n == 64 && params.repetition_penalty == 1.5);
    ck_assert(params.presence_penalty == 0.25);
    begin_file(2); /* without a temperature; penalties off */
    put_key(&file, "general.sampling.top_k", KT_VALUE_I32, (uint32_t)-1);
    put_key(&file, "general.sampling.penalty_last_n", KT_VALUE_I32, 0);
    ck_assert_int_eq(advise_gguf(&params), KT_OK);
    ck_assert(params.temperature == 1 && params.top_k == 0 && params.repetition_penalty == 1);
}
END_TEST

START_TEST(test_gguf_sequence)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    begin_file(4);
    put_key(&file, "general.sampling.top_k", KT_VALUE_I32, 20);
    put_real("general.sampling.top_p", 0.875f);
    put_real("general.sampling.temp", 0.5f);
    put_key_string(&file, "general.sampling.sequence", "penalties;typ_p;top_p;temperature");
    ck_assert_int_eq(advise_gguf(&params), KT_OK);
    ck_assert(params.temperature == 0.5 && params.top_p == 0.875 && params.top_k == 0);
    params.temperature = 3;
    begin_file(1);
    put_key_string(&file, "general.sampling.sequence", "temperature;top_k");
    ck_assert_int_eq(advise_gguf(&params), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "'top_k'"), "%s", error.message);
    ck_assert(params.temperature == 3);
    begin_file(1);
    put_key(&file, "general.sampling.mirostat", KT_VALUE_I32, 2);
    ck_assert_int_eq(advise_gguf(&params), KT_E_UNSUPPORTED);
    ck_assert_str_eq(error.message, "general.sampling.mirostat is not computed");
    begin_file(1);
    put_real("general.sampling.top_p", 1.5f);
    ck_assert_int_eq(advise_gguf(&params), KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, "top_p is 1.5"), "%s", error.message);
    ck_assert(params.temperature == 3 && params.top_p == 0.875);
}
END_TEST

static enum kt_status advise_folder(const char *text, struct kt_sampling_params *params)
{
    static struct shard shard;
    struct kt_checkpoint *checkpoint;
    const float numbers[8] = {0};
    folder_make();
    shard_begin(&shard);
    shard_put(&shard, "t", "F32", 1, (const uint64_t[]){8}, numbers);
    shard_write(&shard, "model.safetensors");
    folder_text("config.json", "{\"model_type\": \"test\"}");
    if (text)
        folder_text("generation_config.json", "%s", text);
    ck_assert_msg(folder_open("", KT_IO_READ, &checkpoint, &error) == KT_OK, "%s", error.message);
    enum kt_status status = kt_sampling_defaults(checkpoint, params, &error);
    kt_checkpoint_close(checkpoint);
    folder_remove();
    return status;
}

START_TEST(test_folder)
{
    static const struct {
        const char *text;
        enum kt_status status;
        double temperature; /* 9: as it was */
        const char *message;
    } files[] = {
        {NULL, KT_OK, 9, NULL},
        {"{}", KT_OK, 9, NULL},
        {"{\"do_sample\": true}", KT_OK, 1, NULL},
        {"{\"do_sample\": true, \"temperature\": 0.6, \"num_beams\": 1, \"bad_words_ids\": []}", KT_OK, 0.6,
         NULL},
        {"{\"temperature\": 0.6}", KT_OK, 0.6, NULL},
        {"{\"do_sample\": false, \"temperature\": 0.6}", KT_OK, 0, NULL},
        {"{\"temperature\": null}", KT_OK, 9, NULL},
        {"{\"temperature\": \"hot\"}", KT_E_FORMAT, 9, "temperature is not a number"},
        {"{\"temperature\": -1}", KT_E_FORMAT, 9, "temperature is -1"},
        {"{\"do_sample\": 1}", KT_E_FORMAT, 9, "do_sample is neither"},
        {"{\"top_k\": 1.5}", KT_E_FORMAT, 9, "top_k is 1.5"},
        {"{\"num_beams\": 4}", KT_E_UNSUPPORTED, 9, "generation_config.json: num_beams is not computed"},
        {"{\"suppress_tokens\": [3]}", KT_E_UNSUPPORTED, 9, "suppress_tokens"},
        {"{", KT_E_FORMAT, 9, "generation_config.json:1"},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
        params.temperature = 9;
        ck_assert_int_eq(advise_folder(files[i].text, &params), files[i].status);
        ck_assert_msg(params.temperature == files[i].temperature, "%s", files[i].text);
        ck_assert_msg(!files[i].message || strstr(error.message, files[i].message), "%s", error.message);
    }
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    ck_assert_int_eq(advise_folder("{\"top_k\": 20, \"top_p\": 0.95, \"min_p\": 0.1, \"typical_p\": 0.9, "
                                   "\"repetition_penalty\": 1.05}",
                                   &params),
                     KT_OK);
    ck_assert(params.top_k == 20 && params.top_p == 0.95 && params.min_p == 0.1 && params.typical_p == 0.9);
    ck_assert(params.repetition_penalty == 1.05 && params.temperature == 0);
}
END_TEST

START_TEST(test_breakers)
{
    struct kt_tokenizer *tokenizer;
    char path[4096];
    const char *const texts[] = {"\n", "th"};
    int32_t *ids;
    uint64_t n, at = 0;
    struct kt_tokenizer_info info;
    snprintf(path, sizeof(path), "%s/tiny-moe/tiny-moe-q4_k_m.gguf", getenv("KT_TEST_DATA"));
    ck_assert_int_eq(kt_tokenizer_open(path, &tokenizer, &error), KT_OK);
    kt_tokenizer_info(tokenizer, &info);
    ck_assert_int_eq(kt_sampling_breakers(tokenizer, texts, 2, &ids, &n, &error), KT_OK);
    ck_assert_uint_gt(n, 10);
    for (uint32_t id = 0; id < info.n_tokens; id++) {
        struct kt_token token;
        char text[256];
        ck_assert_int_eq(kt_tokenizer_token(tokenizer, id, &token, NULL), KT_OK);
        snprintf(text, sizeof(text), "%.*s", (int)token.length, token.text);
        bool is_one = strstr(text, "\n") || strstr(text, "th");
        ck_assert_int_eq(at < n && ids[at] == (int32_t)id, is_one);
        at += is_one;
    }
    ck_assert_uint_eq(at, n);
    kt_ids_free(ids);
    ck_assert_int_eq(kt_sampling_breakers(tokenizer, (const char *const[]){""}, 1, &ids, &n, &error),
                     KT_E_INVALID);
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

/* ---- memory ----------------------------------------------------------------------------------- */

static struct kt_sampling_params looking_back(void)
{
    static const int32_t breakers[] = {3, 77};
    static const struct kt_logit_bias bias[] = {{4, 1}};
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    params.temperature = 1;
    params.top_p = 0.9;
    params.repetition_penalty = 1.1;
    params.dry_multiplier = 1;
    params.dry_breakers = breakers;
    params.n_dry_breakers = 2;
    params.logit_bias = bias;
    params.n_logit_bias = 1;
    params.n_top = 3;
    return params;
}

START_TEST(test_faults)
{
    struct kt_sampling_params params = looking_back();
    float logits[100] = {0};
    for (unsigned long n = 1;; n++) {
        struct kt_sampler *sampler = NULL;
        struct kt_choice choice;
        enum kt_status status;
        error.status = KT_OK;
        faults_arm(n);
        status = kt_sampler_create(100, &params, &sampler, &error);
        for (int32_t i = 0; i < 400 && status == KT_OK; i++)
            status = kt_sampler_accept(sampler, &(int32_t){i % 100}, 1, KT_ORIGIN_GENERATED, &error);
        bool hit = faults_hit();
        faults_arm(0);
        ck_assert_int_eq(status, hit ? KT_E_NOMEM : KT_OK);
        ck_assert_int_eq(error.status, status);
        if (sampler) { /* an empty history, but one that can go on */
            ck_assert_int_eq(kt_sampler_accept(sampler, &(int32_t){1}, 1, KT_ORIGIN_PROMPT, &error), KT_OK);
            ck_assert_int_eq(kt_sampler_choose(sampler, logits, 1, NULL, &choice, &error), KT_OK);
        }
        kt_sampler_destroy(sampler);
        if (!hit) {
            ck_assert_uint_gt(n, 15);
            break;
        }
    }
}
END_TEST

/* Choosing asks for no memory, whatever is on. */
START_TEST(test_no_allocation)
{
    float logits[1000];
    uint64_t allowed[16];
    struct kt_choice choice;
    memset(allowed, 0xFF, sizeof(allowed));
    for (int i = 0; i < 1000; i++)
        logits[i] = (float)((i * 37) % 101) / 10;
    for (int number = 0; number <= SETTINGS; number++) {
        struct kt_sampling_params params = number < SETTINGS ? params_of(number) : looking_back();
        struct kt_sampler *sampler = make(1000, &params);
        ck_assert_int_eq(kt_sampler_accept(sampler, (const int32_t[]){1, 2, 1}, 3, KT_ORIGIN_PROMPT, &error),
                         KT_OK);
        enum kt_status status = KT_OK; /* libcheck asks for memory itself */
        faults_arm(1);
        for (int i = 0; i < 50 && status == KT_OK; i++)
            status = kt_sampler_choose(sampler, logits, (uint64_t)i, i % 2 ? allowed : NULL, &choice, &error);
        bool hit = faults_hit();
        faults_arm(0);
        ck_assert_int_eq(status, KT_OK);
        ck_assert(!hit);
        kt_sampler_destroy(sampler);
    }
}
END_TEST

/* Memory for what is looked back at, not for what was said. */
START_TEST(test_long_history)
{
    struct kt_sampling_params params = looking_back();
    params.penalty_last_n = 50;
    params.dry_last_n = 70;
    struct kt_sampler *sampler = make(100000, &params);
    for (int32_t i = 0; i < 100000; i++)
        ck_assert_int_eq(kt_sampler_accept(sampler, &i, 1, KT_ORIGIN_GENERATED, NULL), KT_OK);
    ck_assert_uint_le(sampler->history.capacity, 512);
    ck_assert_uint_le(sampler->history.n_slots, 1024);
    uint64_t n_counted = 0;
    for (uint64_t i = 0; i < sampler->history.n_slots; i++)
        n_counted += sampler->history.counts[i].all;
    ck_assert_uint_eq(n_counted, 50);
    kt_sampler_destroy(sampler);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sampling limits");
    tcase_add_loop_test(tcase, test_broken, 0, SETTINGS);
    tcase_add_loop_test(tcase, test_nothing_left, 0, SETTINGS);
    tcase_add_loop_test(tcase, test_extremes, 0, SETTINGS);
    tcase_add_test(tcase, test_exponential);
    tcase_add_test(tcase, test_ranges);
    tcase_add_test(tcase, test_arguments);
    tcase_add_test(tcase, test_gguf);
    tcase_add_test(tcase, test_gguf_sequence);
    tcase_add_test(tcase, test_folder);
    tcase_add_test(tcase, test_breakers);
    tcase_add_test(tcase, test_faults);
    tcase_add_test(tcase, test_no_allocation);
    tcase_add_test(tcase, test_long_history);
    tcase_set_timeout(tcase, 120);
    return run_tests("sampling limits", tcase);
}
