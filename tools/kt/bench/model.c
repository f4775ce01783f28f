/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - kt bench MODEL: the layers of a checkpoint, with their own shapes, formats and weights. */
#include "tools/kt/bench/run.h"
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/checkpoint/linears.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_LIST 16 /* columns: a longer list of layers wraps */

static bool is_alike(const struct kt_moe_info *a, const struct kt_moe_info *b)
{
    return a->n_experts == b->n_experts && a->top_k == b->top_k && a->hidden_size == b->hidden_size &&
           a->intermediate_size == b->intermediate_size && a->has_bias == b->has_bias &&
           a->activation == b->activation && memcmp(a->dtype, b->dtype, sizeof a->dtype) == 0;
}

/* Puts a layer into the group of those like it. */
static int add_layer(const struct kt_cli *cli, struct bench_model *model, uint64_t layer)
{
    struct kt_moe_info moe;
    struct kt_error error;
    if (kt_checkpoint_moe(model->checkpoint, layer, &moe, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (*moe.stored_form != '\0')
        return kt_cli_error(
            cli,
            "layer %llu is stored for %s and used where it lies, so that copies of it would come "
            "from a cache: bench the checkpoint that it was made of",
            (unsigned long long)layer, moe.stored_backend);
    size_t i = 0;
    while (i < model->n_groups && !is_alike(&moe, &model->groups[i].moe))
        i++;
    struct bench_group *group = &model->groups[i];
    if (i == model->n_groups) {
        *group = (struct bench_group){.moe = moe, .layer = layer};
        model->n_groups++;
    }
    kt_model_list_layer(cli, &group->layers, layer);
    return KT_EXIT_OK;
}

int bench_model_open(struct kt_cli *cli, const char *path, const char *layers, struct bench_model *model)
{
    uint64_t *numbers;
    size_t n;
    *model = (struct bench_model){.n_groups = 0};
    int code = kt_cli_checkpoint(cli, path, &model->checkpoint);
    if (code == KT_EXIT_OK && kt_model_is_dense(model->checkpoint, layers))
        code = kt_cli_error(
            cli,
            "%s: no layer has experts; measure the whole model, by -p 512 -n 64, or matrices, by "
            "--linear",
            path);
    if (code == KT_EXIT_OK)
        code = kt_model_layers(cli, model->checkpoint, "layers", layers, &numbers, &n);
    if (code != KT_EXIT_OK) {
        bench_model_close(model);
        return code;
    }
    model->groups = kt_cli_alloc(cli, n, sizeof *model->groups);
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++)
        code = add_layer(cli, model, numbers[i]);
    free(numbers);
    if (code != KT_EXIT_OK)
        bench_model_close(model);
    return code;
}

void bench_model_close(struct bench_model *model)
{
    for (size_t i = 0; i < model->n_groups; i++)
        free(model->groups[i].layers);
    free(model->groups);
    kt_checkpoint_close(model->checkpoint);
    *model = (struct bench_model){.n_groups = 0};
}

void bench_model_shape(const struct bench_group *group, struct bench_shape *shape)
{
    const struct kt_moe_info *moe = &group->moe;
    *shape = (struct bench_shape){.name = "",
                                  .hidden_size = moe->hidden_size,
                                  .intermediate_size = moe->intermediate_size,
                                  .n_experts = moe->n_experts,
                                  .top_k = moe->top_k,
                                  .model_experts = moe->n_experts};
}

/* The backend that would run the layer. BENCH_REFUSED after a message: there is none. */
static int find_backend(struct bench *bench, struct kt_checkpoint *checkpoint, uint64_t number, char name[32])
{
    char title[40];
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_error error;
    enum kt_status status = kt_checkpoint_layer_params(checkpoint, number, &params, &error);
    for (size_t i = 0; i < bench->n_token_counts; i++)
        if (bench->tokens[i] > params.max_tokens)
            params.max_tokens = (uint32_t)bench->tokens[i];
    (void)snprintf(title, sizeof title, "layer %" PRIu64, number);
    params.name = title;
    if (status == KT_OK)
        status = kt_layer_create(bench->context, &params, &layer, &error);
    if (status != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    struct kt_plan *plan = kt_cli_alloc(bench->cli, 1, sizeof *plan);
    status = kt_layer_plan_checkpoint(layer, checkpoint, number, plan, &error);
    for (uint32_t c = 0; c < plan->n_candidates && status == KT_OK; c++)
        if (plan->candidate[c].chosen)
            (void)snprintf(name, 32, "%s", plan->candidate[c].backend);
    free(plan);
    kt_layer_destroy(layer);
    if (status == KT_OK)
        return KT_EXIT_OK;
    int code = kt_cli_fail(bench->cli, &error);
    return status == KT_E_UNSUPPORTED ? BENCH_REFUSED : code;
}

static int run_group(struct bench *bench, struct kt_checkpoint *checkpoint, const struct bench_group *group)
{
    const struct kt_moe_info *moe = &group->moe;
    struct bench_source source = {.hidden_size = moe->hidden_size,
                                  .intermediate_size = moe->intermediate_size,
                                  .n_experts = moe->n_experts,
                                  .activation = moe->activation,
                                  .limit = moe->limit,
                                  .alpha = moe->alpha};
    struct kt_error error;
    char backend[32] = "";
    int code = KT_EXIT_OK;
    (void)kt_model_types(moe, source.name, sizeof source.name);
    source.experts = kt_cli_alloc(bench->cli, source.n_experts, sizeof *source.experts);
    uint32_t top_k = bench->shape.top_k;
    bench_model_shape(group, &bench->shape);
    bench->shape.top_k = bench->trace != NULL ? top_k : moe->top_k;
    bench->layers = group->layers;
    if (kt_checkpoint_experts(checkpoint, group->layer, source.experts, source.n_experts, &error) != KT_OK)
        code = kt_cli_fail(bench->cli, &error);
    if (code == KT_EXIT_OK && bench->asks_plan)
        code = find_backend(bench, checkpoint, group->layer, backend);
    if (code == KT_EXIT_OK && *backend != '\0')
        code = bench->run(bench, backend, &source);
    bool refused = false;
    for (size_t i = 0; i < bench->n_backends && !bench->asks_plan && code == KT_EXIT_OK; i++) {
        code = bench->run(bench, bench->backends[i], &source);
        refused |= code == BENCH_REFUSED;
        code = code == BENCH_REFUSED ? KT_EXIT_OK : code;
    }
    code = code == KT_EXIT_OK && refused ? BENCH_REFUSED : code;
    (void)kt_checkpoint_release_layer(checkpoint, group->layer, NULL);
    free(source.experts);
    return code;
}

int bench_model_run(struct bench *bench, const struct bench_model *model)
{
    int code = KT_EXIT_OK;
    bool refused = false;
    for (size_t i = 0; i < model->n_groups; i++) {
        char text[64];
        if (strlen(model->groups[i].layers) <= LONG_LIST)
            kt_table_expect(bench->rows, "layers", model->groups[i].layers);
        kt_table_expect(bench->rows, "source_type", kt_model_types(&model->groups[i].moe, text, sizeof text));
    }
    for (size_t i = 0; i < model->n_groups && code == KT_EXIT_OK; i++) {
        bench->tells_levels = i == 0;
        code = run_group(bench, model->checkpoint, &model->groups[i]);
        refused |= code == BENCH_REFUSED;
        code = code == BENCH_REFUSED ? KT_EXIT_OK : code;
    }
    return code == KT_EXIT_OK && refused ? KT_EXIT_PROBLEM : code;
}
