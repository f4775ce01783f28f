/* SPDX-License-Identifier: Apache-2.0 */
/* user.h - what programs of the campaign share that use the library as others do. */
#ifndef KT_CAMPAIGN_USER_H
#define KT_CAMPAIGN_USER_H

#include <kt/kt.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Ends the program, or a child of it, where a call failed that must not. */
static inline void need(enum kt_status status, const char *what, const struct kt_error *error)
{
    if (status == KT_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, error->message);
    (void)fflush(stdout);
    _exit(2);
}

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A context with one setting. */
static inline struct kt_context *make_context(const char *setting)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_context *context;
    struct kt_error error;
    params.settings = &setting;
    params.n_settings = 1;
    need(kt_config_create(&params, &config, &error), "kt_config_create", &error);
    need(kt_context_create(config, &context, &error), "kt_context_create", &error);
    kt_config_destroy(config);
    return context;
}

#endif
