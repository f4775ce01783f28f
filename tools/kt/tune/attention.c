/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - kt tune --attention: caches that come from memory, and calls of some tokens after them.
 */
#include "tools/kt/bench/cache.h"
#include "tools/kt/tune/run.h"

#include <stdlib.h>

struct attention {
    struct bench_cache cache;
    const uint64_t *tokens; /* of a call, by point */
    uint64_t next;          /* layer */
};

static enum kt_status ask(void *data, uint32_t index, struct kt_tunable_info *info, struct kt_error *error)
{
    return kt_attention_tunable(((struct attention *)data)->cache.layers[0], index, info, error);
}

static enum kt_status set_value(void *data, const char *name, uint64_t value, struct kt_error *error)
{
    const struct bench_cache *cache = &((struct attention *)data)->cache;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < cache->n_layers && status == KT_OK; i++)
        status = kt_attention_tune(cache->layers[i], name, value, error);
    return status;
}

static enum kt_status call(void *data, size_t point, double *time, double *amount, struct kt_error *error)
{
    struct attention *attention = data;
    *amount = 1;
    attention->cache.items[0].n_tokens = (uint32_t)attention->tokens[point];
    return bench_cache_run(&attention->cache, attention->next++, time, error);
}

/* A shape and a form of the cache. */
static int tune_cache(struct tuning *tuning, const struct bench_heads *heads, const struct bench_form *form)
{
    struct bench *bench = &tuning->bench;
    struct attention attention = {.cache = {.cli = bench->cli,
                                            .context = bench->context,
                                            .shape = heads,
                                            .form = form,
                                            .n_context = (uint32_t)tuning->attention.context,
                                            .n_sequences = 1},
                                  .tokens = bench->tokens};
    struct bench_cache *cache = &attention.cache;
    struct kt_attention_info info;
    struct kt_error error;
    for (size_t i = 0; i < bench->n_token_counts; i++)
        if (bench->tokens[i] > cache->n_tokens)
            cache->n_tokens = (uint32_t)bench->tokens[i];
    cache->n_layers = bench_cache_layers(cache, bench->cycle_size);
    enum kt_status status =
        bench_cache_create(cache, bench->n_backends > 0 ? bench->backends[0] : NULL, &error);
    int code = status == KT_E_NOT_FOUND || status == KT_E_UNSUPPORTED
                   ? kt_cli_usage(bench->cli, "%s", error.message)
               : status != KT_OK ? kt_cli_fail(bench->cli, &error)
                                 : KT_EXIT_OK;
    if (code == KT_EXIT_OK) {
        kt_attention_info(cache->layers[0], &info);
        const struct tune_subject subject = {.data = &attention,
                                             .n_copies = cache->n_layers,
                                             .backend = info.backend,
                                             .level = info.level,
                                             .format = form->name,
                                             .tunable = ask,
                                             .tune = set_value,
                                             .call = call};
        tuning->heads = heads->name;
        code = tune_subject(tuning, &subject);
    }
    bench_cache_destroy(cache);
    return code;
}

static int tune_shape(struct tuning *tuning, const char *name, const char *const *caches, size_t n_caches)
{
    const struct kt_cli *cli = tuning->bench.cli;
    const struct bench_form *form;
    struct bench_heads heads;
    int code = bench_heads_choose(cli, name, &heads);
    if (code == KT_EXIT_OK && heads.delta)
        code = kt_cli_usage(cli, "--attention %s: Gated DeltaNet has nothing that can be tuned", name);
    for (size_t i = 0; i < n_caches && code == KT_EXIT_OK; i++) {
        code = bench_form_choose(cli, caches[i], &form);
        if (code == KT_EXIT_OK)
            code = tune_cache(tuning, &heads, form);
    }
    return code;
}

int tune_attention(struct tuning *tuning)
{
    const struct tune_attention *what = &tuning->attention;
    struct kt_cli *cli = tuning->bench.cli;
    const char *shape[BENCH_ATTENTION_MOST], *form[BENCH_ATTENTION_MOST];
    char *shapes = kt_cli_format(cli, "%s", what->shapes), *caches = kt_cli_format(cli, "%s", what->caches);
    size_t n_shapes = bench_split(shapes, shape, BENCH_ATTENTION_MOST);
    size_t n_caches = bench_split(caches, form, BENCH_ATTENTION_MOST);
    int code = KT_EXIT_OK;
    if (n_shapes == 0 || n_caches == 0)
        code = kt_cli_usage(cli, "--attention %s --cache %s: names between commas are needed", what->shapes,
                            what->caches);
    else if (tuning->bench.n_backends > 1)
        code = kt_cli_usage(cli, "--attention %s: one backend at a time", what->shapes);
    for (size_t i = 0; i < n_shapes && code == KT_EXIT_OK; i++)
        code = tune_shape(tuning, shape[i], form, n_caches);
    free(shapes);
    free(caches);
    return code;
}
