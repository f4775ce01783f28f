/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - what kt bench and kt tune are asked to run, and on which backends. */
#include "tools/kt/bench/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int choose_tokens(struct bench *bench, const char *text)
{
    if (text == NULL)
        return KT_EXIT_OK;
    size_t n = kt_cli_list(bench->cli, "tokens", text, bench->tokens, BENCH_MAX_TOKEN_COUNTS);
    for (size_t i = 0; i < n; i++)
        if (bench->tokens[i] < 1 || bench->tokens[i] > 65536)
            return kt_cli_usage(bench->cli, "--tokens %s: a call has 1 to 65536 tokens", text);
    bench->n_token_counts = n;
    return n != 0 ? KT_EXIT_OK : KT_EXIT_USAGE;
}

size_t bench_split(char *text, const char **names, size_t max)
{
    size_t n = 0;
    for (char *rest = text, *name; (name = strsep(&rest, ",")) != NULL;) {
        if (*name == 0 || n == max)
            return 0;
        names[n++] = name;
    }
    return n;
}

static int choose_types(struct bench *bench, const char *text)
{
    const char *names[BENCH_MAX_NAMES];
    if (text == NULL)
        return KT_EXIT_OK;
    char *copy = kt_cli_format(bench->cli, "%s", text);
    size_t n = bench_split(copy, names, BENCH_MAX_NAMES);
    int code = n != 0 ? KT_EXIT_OK
                      : kt_cli_usage(bench->cli,
                                     "--source-type %s: names such as "
                                     "q4_k,q8_0 are needed",
                                     text);
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++) {
        bench->types[i] = bench_source_find(names[i]);
        if (bench->types[i] == NULL)
            code = kt_cli_usage(bench->cli, "--source-type %s is not known%s; types are %s", names[i],
                                kt_cli_hint_of(names[i], bench_source_names()).text, bench_source_names());
    }
    bench->n_types = n;
    free(copy);
    return code;
}

/* Reads the names of --backend, and turns --level into a setting of each. */
static int choose_backends(struct bench *bench, const char *text, const char *level)
{
    bench->explicit_backends = text != NULL && strcmp(text, "all") != 0;
    if (!bench->explicit_backends)
        return level == NULL
                   ? KT_EXIT_OK
                   : kt_cli_usage(bench->cli, "--level %s: say of which backend, by --backend", level);
    bench->names = kt_cli_format(bench->cli, "%s", text);
    bench->n_backends = bench_split(bench->names, bench->backends, BENCH_MAX_NAMES);
    if (bench->n_backends == 0)
        return kt_cli_usage(bench->cli,
                            "--backend %s: names such as llamafile,reference, or all, are "
                            "needed",
                            text);
    for (size_t i = 0; i < bench->n_backends; i++) {
        bench->backends[i] = kt_cli_backend(bench->cli, "backend", bench->backends[i]);
        if (bench->backends[i] == NULL)
            return KT_EXIT_USAGE;
    }
    for (size_t i = 0; i < bench->n_backends && level != NULL; i++)
        kt_cli_set(bench->cli, "plugin.%s.level=%s", bench->backends[i], level);
    return KT_EXIT_OK;
}

/* ---- backends ---- */

static int check_backend(const struct bench *bench, const char *name)
{
    static const char *const states[] = {"loaded", "disabled", "unfit", "refused", "failed"};
    const char *known[BENCH_MAX_NAMES];
    size_t n_known = 0;
    for (size_t i = 0; i < kt_context_backend_count(bench->context); i++) {
        struct kt_backend_info info;
        if (kt_context_backend(bench->context, i, &info, NULL) != KT_OK)
            continue;
        if (n_known < BENCH_MAX_NAMES)
            known[n_known++] = info.name;
        if (strcmp(info.name, name) != 0)
            continue;
        if (info.state == KT_BACKEND_LOADED)
            return KT_EXIT_OK;
        if (info.state == KT_BACKEND_FAILED)
            return kt_cli_usage(bench->cli, "backend %s is failed; a warning above says why", name);
        return kt_cli_usage(bench->cli, "backend %s is %s: %s", name,
                            (size_t)info.state < COUNT(states) ? states[info.state] : "not loaded",
                            info.reason);
    }
    return kt_cli_usage(bench->cli, "no backend %s is configured%s; `kt backends` lists them", name,
                        kt_cli_hint(name, known, n_known).text);
}

int bench_find_backends(struct bench *bench, bool with_reference)
{
    for (size_t i = 0; bench->explicit_backends && i < bench->n_backends; i++) {
        int code = check_backend(bench, bench->backends[i]);
        if (code != KT_EXIT_OK)
            return code;
    }
    for (size_t i = 0; !bench->explicit_backends && i < kt_context_backend_count(bench->context); i++) {
        struct kt_backend_info info;
        if (kt_context_backend(bench->context, i, &info, NULL) != KT_OK || info.state != KT_BACKEND_LOADED ||
            bench->n_backends == BENCH_MAX_NAMES || (info.takes_attention && !info.takes_linears))
            continue;
        if (with_reference || strcmp(info.name, "reference") != 0)
            bench->backends[bench->n_backends++] = info.name;
    }
    return bench->n_backends != 0
               ? KT_EXIT_OK
               : kt_cli_usage(bench->cli, "no backend but the reference is loaded "
                                          "(`kt backends` says why): name it by --backend");
}

/* ---- weights out of random numbers ---- */

static int bench_type(struct bench *bench, const char *backend, const struct bench_source_type *type)
{
    const struct bench_shape *shape = &bench->shape;
    struct bench_source source;
    struct kt_error error;
    uint32_t n_distinct;
    char need[24];
    uint64_t size = shape->linear
                        ? bench_source_matrix_size(type, shape->hidden_size, shape->intermediate_size)
                        : bench_source_size(type, shape->hidden_size, shape->intermediate_size,
                                            shape->n_experts, bench->activation, &n_distinct);
    uint64_t available = kt_memory_available();
    if (size == 0)
        return shape->linear ? kt_cli_usage(bench->cli, "columns of %s are not whole blocks of %s",
                                            shape->name, type->name)
                             : kt_cli_usage(bench->cli,
                                            "hidden size %" PRIu64 " or intermediate size %" PRIu64
                                            " is not a whole number of blocks of %s",
                                            shape->hidden_size, shape->intermediate_size, type->name);
    if (available != 0 && size > available / 2)
        return kt_cli_error(bench->cli, "the source weights need %s of memory: take a smaller shape",
                            kt_bytes_text(size, need, sizeof need));
    kt_progress_start(bench->cli, "making weights");
    enum kt_status status =
        shape->linear
            ? bench_source_matrix(type, shape->hidden_size, shape->intermediate_size, &source, &error)
            : bench_source_create(type, shape->hidden_size, shape->intermediate_size, shape->n_experts,
                                  bench->activation, &source, &error);
    kt_progress_stop();
    if (status != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    int code = bench->run(bench, backend, &source);
    bench_source_destroy(&source);
    return code;
}

static const char *find_formats(const struct kt_context *context, const char *backend)
{
    struct kt_backend_info info;
    struct kt_error error;
    for (size_t i = 0; i < kt_context_backend_count(context); i++)
        if (kt_context_backend(context, i, &info, &error) == KT_OK && strcmp(info.name, backend) == 0)
            return info.formats;
    return "";
}

int bench_run_types(struct bench *bench)
{
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < bench->n_backends && code == KT_EXIT_OK; i++) {
        const char *backend = bench->backends[i];
        if (bench->n_types == 0)
            code = bench_type(bench, backend, bench_source_usual(find_formats(bench->context, backend)));
        for (size_t t = 0; t < bench->n_types && code == KT_EXIT_OK; t++) {
            bench->tells_levels = t == 0;
            code = bench_type(bench, backend, bench->types[t]);
        }
    }
    return code;
}

/* All matrices on one backend after the other. */
int bench_run_linears(struct bench *bench)
{
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < bench->n_linears && code == KT_EXIT_OK; i++) {
        bench->shape = bench->linears[i];
        code = bench_run_types(bench);
    }
    return code;
}

/* The layers of the model, or the shape of a random one. */
static int choose_layer(struct bench *bench, const struct bench_request *args, struct bench_model *model)
{
    if (args->linear != NULL) {
        bench->n_linears = bench_shape_linears(bench->cli, args->linear, bench->linears, BENCH_MAX_NAMES);
        bench->shape = bench->linears[0];
        bench->has_shapes = bench->n_linears > 1;
        return bench->n_linears != 0 ? KT_EXIT_OK : KT_EXIT_USAGE;
    }
    if (args->model == NULL)
        return bench_shape_choose(bench->cli, args->shape != NULL ? args->shape : "qwen3-30b-a3b",
                                  &bench->shape);
    int code = bench_model_open(bench->cli, args->model, args->layers, model);
    if (code != KT_EXIT_OK)
        return code;
    bench_model_shape(&model->groups[0], &bench->shape);
    for (size_t i = 1; i < model->n_groups; i++) {
        const struct kt_moe_info *moe = &model->groups[i].moe;
        if (moe->hidden_size == bench->shape.hidden_size && moe->n_experts == bench->shape.n_experts &&
            moe->intermediate_size == bench->shape.intermediate_size && moe->top_k == bench->shape.top_k)
            continue;
        bench->has_shapes = true;
        if (args->trace != NULL)
            return kt_cli_usage(bench->cli, "--trace: layers %s and %s differ in shape, choose by --layers",
                                model->groups[0].layers, model->groups[i].layers);
    }
    return code;
}

int bench_choose(struct bench *bench, const struct bench_request *request, struct bench_model *model)
{
    int code = choose_layer(bench, request, model);
    if (code == KT_EXIT_OK)
        code = choose_tokens(bench, request->tokens);
    if (code == KT_EXIT_OK && bench->n_token_counts > request->most)
        code = kt_cli_usage(bench->cli, "--tokens %s: at most %zu", request->tokens, request->most);
    if (code == KT_EXIT_OK && bench->trace != NULL)
        code = bench_trace_choose(bench->cli, request->trace, bench->trace, &bench->shape, bench->tokens,
                                  BENCH_MAX_TOKEN_COUNTS, &bench->n_token_counts);
    if (code == KT_EXIT_OK)
        code = choose_types(bench, request->source_type);
    bench->activation = request->activation;
    if (code == KT_EXIT_OK)
        code = choose_backends(bench, request->backend, request->level);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(bench->cli, &bench->context);
    if (code == KT_EXIT_OK)
        kt_context_info(bench->context, &bench->info);
    return code;
}

void bench_end(struct bench *bench, struct bench_model *model)
{
    kt_context_destroy(bench->context);
    for (size_t i = 0; i < bench->n_linears; i++)
        free((char *)(uintptr_t)bench->linears[i].name);
    bench_model_close(model);
    free(bench->names);
}
