/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - options of sampling, over what the model advises. */
#include "tools/engine/prompt/prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Numbers that options set. */
struct field {
    const char *name;
    size_t from, to;
    bool is_filter; /* asks for drawing, so that without a temperature that is 1 */
};

#define FIELD(name, least, most, asked_least, asked_most, is_filter) \
    {#name, offsetof(struct kt_sampling_args, name), offsetof(struct kt_sampling_params, name), is_filter},
static const struct field reals[] = {KT_SAMPLING_REALS(FIELD)};
#define N_REALS (sizeof(reals) / sizeof(reals[0]))

static double get_real(const void *from, size_t offset)
{
    double number;
    memcpy(&number, (const char *)from + offset, sizeof(number));
    return number;
}

static void apply(const struct kt_sampling_args *args, struct kt_sampling_params *params)
{
    bool draws = false;
    for (size_t i = 0; i < N_REALS; i++) {
        double number = get_real(args, reals[i].from);
        if (number < 0)
            continue;
        memcpy((char *)params + reals[i].to, &number, sizeof(number));
        draws |= reals[i].is_filter;
    }
    if (args->top_k != KT_NOT_GIVEN) {
        params->top_k = (uint32_t)args->top_k;
        draws = true;
    }
    if (args->penalty_last_n != KT_NOT_GIVEN)
        params->penalty_last_n = args->penalty_last_n;
    if (args->dry_length != KT_NOT_GIVEN)
        params->dry_allowed_length = (uint32_t)args->dry_length;
    if (args->dry_last_n != KT_NOT_GIVEN)
        params->dry_last_n = args->dry_last_n;
    if (draws && args->temperature < 0 && params->temperature == 0)
        params->temperature = 1;
}

static enum kt_status make_stop(const struct kt_sampling_args *args, struct kt_stop **stop,
                                struct kt_error *error)
{
    struct kt_stop_text texts[sizeof(args->stop.text) / sizeof(args->stop.text[0])];
    for (size_t i = 0; i < args->stop.n; i++)
        texts[i] = (struct kt_stop_text){args->stop.text[i], strlen(args->stop.text[i])};
    return kt_stop_create(texts, args->stop.n, 0, stop, error);
}

int kt_sampling_check(const struct kt_cli *cli, const struct kt_sampling_args *args)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    struct kt_sampler *sampler = NULL;
    struct kt_stop *stop = NULL;
    struct kt_error error = {KT_OK, ""};
    apply(args, &params);
    if (kt_sampler_create(1, &params, &sampler, &error) == KT_OK)
        (void)make_stop(args, &stop, &error);
    kt_sampler_destroy(sampler);
    kt_stop_destroy(stop);
    return error.status == KT_OK ? KT_EXIT_OK : kt_cli_usage(cli, "%s", error.message);
}

void kt_sampling_text(const struct kt_sampling_params *params, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < N_REALS && params->temperature > 0; i++) {
        double number = get_real(params, reals[i].to);
        if (number != 0 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s %g, ", reals[i].name, number);
    }
    if (params->temperature > 0 && params->top_k > 0 && used < size)
        (void)snprintf(text + used, size - used, "top_k %" PRIu32 ", ", params->top_k);
}

static int read_advice(const struct kt_cli *cli, const struct kt_sampling_args *args,
                       const struct kt_loaded *loaded, struct kt_sampling_params *params)
{
    struct kt_error error;
    enum kt_status status = kt_sampling_defaults(loaded->checkpoint, params, &error);
    if (status == KT_OK)
        return KT_EXIT_OK;
    if (args->temperature < 0)
        return kt_cli_error(cli, "%s; --temperature and other options replace what the model advises",
                            error.message);
    kt_cli_warn(cli, "%s; nothing that the model advises is used", error.message);
    return KT_EXIT_OK;
}

int kt_sampling_choose(const struct kt_cli *cli, const struct kt_sampling_args *args,
                       const struct kt_loaded *loaded, struct kt_sampling_params *params)
{
    static const char *const texts[] = {"\n", ":", "\"", "*"};
    struct kt_error error;
    int32_t *breakers = NULL;
    *params = (struct kt_sampling_params)KT_SAMPLING_PARAMS_INIT;
    int code = read_advice(cli, args, loaded, params);
    if (code != KT_EXIT_OK)
        return code;
    apply(args, params);
    params->seed = args->seed;
    if (args->seed == KT_NOT_GIVEN) {
        uint32_t seed = 0; /* short enough to be typed again */
        if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
            seed = (uint32_t)(kt_cli_now() * 1e6);
        params->seed = seed;
    }
    if (params->dry_multiplier > 0 &&
        kt_sampling_breakers(loaded->tokenizer, texts, sizeof(texts) / sizeof(texts[0]), &breakers,
                             &params->n_dry_breakers, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    params->dry_breakers = breakers;
    return KT_EXIT_OK;
}

int kt_sampling_start(const struct kt_cli *cli, const struct kt_sampling_args *args,
                      const struct kt_loaded *loaded, struct kt_sampler **sampler)
{
    struct kt_sampling_params params;
    struct kt_error error;
    char text[512];
    int code = kt_sampling_choose(cli, args, loaded, &params);
    if (code != KT_EXIT_OK)
        return code;
    enum kt_status status = kt_sampler_create(kt_loaded_vocabulary(loaded), &params, sampler, &error);
    kt_ids_free((int32_t *)(uintptr_t)params.dry_breakers);
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_sampling_text(&params, text, sizeof(text));
    if (params.temperature > 0)
        fprintf(stderr, "kt %s: %sseed %" PRIu64 "\n", cli->verb, text, params.seed);
    return KT_EXIT_OK;
}

/* Sets a field; false: out of memory. */
static bool set_count(json_t *request, const char *name, uint64_t number)
{
    return number == KT_NOT_GIVEN ||
           json_object_set_new(request, name, json_integer((json_int_t)number)) == 0;
}

int kt_sampling_fields(const struct kt_cli *cli, const struct kt_sampling_args *args, json_t *request)
{
    if (args->penalty_last_n != KT_NOT_GIVEN || args->dry_last_n != KT_NOT_GIVEN)
        return kt_cli_usage(cli, "servers have no --%s; it needs a MODEL",
                            args->dry_last_n != KT_NOT_GIVEN ? "dry-last-n" : "penalty-last-n");
    bool done = set_count(request, "top_k", args->top_k) && set_count(request, "seed", args->seed) &&
                set_count(request, "dry_allowed_length", args->dry_length);
    for (size_t i = 0; i < N_REALS; i++) {
        double number = get_real(args, reals[i].from);
        done = done && (number < 0 || json_object_set_new(request, reals[i].name, json_real(number)) == 0);
    }
    json_t *stop = args->stop.n > 0 ? json_array() : NULL;
    for (size_t i = 0; i < args->stop.n; i++)
        done = done && json_array_append_new(stop, json_string(args->stop.text[i])) == 0;
    done = done && (!stop || json_object_set(request, "stop", stop) == 0);
    json_decref(stop);
    return done ? KT_EXIT_OK : kt_cli_error(cli, "a --stop is not UTF-8, or there is no memory");
}

int kt_sampling_stop(const struct kt_cli *cli, const struct kt_sampling_args *args, struct kt_stop **stop)
{
    struct kt_error error;
    return make_stop(args, stop, &error) == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}
