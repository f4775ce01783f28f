/* SPDX-License-Identifier: Apache-2.0 */
/* set.c - copies of a layer, so many that weights come from memory and not from a cache.
 */
#include "tools/kt/bench/bench.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdlib.h>

#define MIN_CYCLE_SIZE (UINT64_C(1536) << 20)
#define MAX_COPIES 65536

uint64_t bench_cycle_size(void)
{
    uint64_t cache = 3 * bench_cache_size();
    return cache > MIN_CYCLE_SIZE ? cache : MIN_CYCLE_SIZE;
}

static int make_layer(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                      uint32_t n_experts, struct kt_layer **layer)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_error error;
    params.n_experts = n_experts;
    params.top_k = want->shape->top_k;
    params.hidden_size = want->shape->hidden_size;
    params.intermediate_size = want->shape->intermediate_size;
    params.max_tokens = want->max_tokens;
    params.activation = want->source->activation;
    params.limit = want->source->limit;
    params.alpha = want->source->alpha;
    params.backend = want->backend;
    params.name = "the bench's layer";
    if (kt_layer_create(context, &params, layer, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return KT_EXIT_OK;
}

static int make_linear(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                       struct kt_linear **linear)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_error error;
    params.rows = want->shape->hidden_size;
    params.cols = want->shape->intermediate_size;
    params.max_tokens = want->max_tokens;
    params.backend = want->backend;
    params.name = "the bench's linear";
    if (kt_linear_create(context, &params, linear, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return KT_EXIT_OK;
}

/* Bytes that one copy of the layer takes, all nodes. */
static uint64_t copy_size(const struct kt_plan *plan, uint32_t n_experts)
{
    return plan->keeps_source ? plan->weight_size + plan->nominal_size * n_experts : plan->weight_size;
}

static int make_plan(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                     struct kt_plan *plan)
{
    struct kt_layer *layer = NULL;
    struct kt_linear *linear = NULL;
    struct kt_error error;
    int code = want->shape->linear ? make_linear(cli, context, want, &linear)
                                   : make_layer(cli, context, want, want->shape->n_experts, &layer);
    if (code != KT_EXIT_OK)
        return code;
    enum kt_status status = linear != NULL
                                ? kt_linear_plan(linear, &want->source->experts->down, 0, plan, &error)
                                : kt_layer_plan(layer, want->source->experts, plan, &error);
    kt_linear_destroy(linear);
    kt_layer_destroy(layer);
    if (status == KT_E_UNSUPPORTED) {
        kt_cli_warn(cli, "%s", error.message);
        return BENCH_REFUSED;
    }
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    return plan->fallback ? BENCH_REFUSED : KT_EXIT_OK; /* the library has warned why */
}

/* How many copies and experts fit: the weights, and a buffer of their size to measure the read bandwidth,
 * must fit into four fifths of the free memory. */
static int cut_to_memory(struct kt_cli *cli, const struct bench_want *want, const struct kt_plan *plan,
                         uint32_t *n_copies, uint32_t *n_experts)
{
    uint32_t experts = want->shape->n_experts;
    uint64_t size = copy_size(plan, experts), goal = want->cycle_size;
    uint64_t available = kt_memory_available();
    char need[24], got[24];
    if (goal == 0)
        goal = bench_cycle_size();
    uint64_t copies = size != 0 ? (goal + size - 1) / size : 1;
    copies = copies < 1 ? 1 : copies > MAX_COPIES ? MAX_COPIES : copies;
    if (available != 0) {
        uint64_t usable = available / 5 * 4;
        usable = usable > plan->buffer_size ? (usable - plan->buffer_size) / 2 : 0;
        if (size > usable) {
            uint64_t fit = usable / (size / experts + 1);
            if (fit < want->shape->top_k)
                return kt_cli_error(cli,
                                    "%" PRIu32 " experts need %s and a read buffer of the same "
                                    "size, %s of memory are free: take a smaller shape",
                                    want->shape->top_k,
                                    kt_bytes_text(size / experts * want->shape->top_k, need, sizeof need),
                                    kt_bytes_text(available, got, sizeof got));
            experts = (uint32_t)fit;
            size = size / want->shape->n_experts * experts;
            copies = 1;
            kt_cli_note(cli, "cut from %" PRIu32 " to %" PRIu32 " experts to fit %s of free memory",
                        want->shape->n_experts, experts, kt_bytes_text(available, got, sizeof got));
        } else if (copies > usable / size) {
            copies = usable / size;
        }
    }
    if (size * copies < goal)
        kt_cli_warn(
            cli, "not enough memory: weights cycle through %s instead of %s, so some may come from a cache",
            kt_bytes_text(size * copies, got, sizeof got), kt_bytes_text(goal, need, sizeof need));
    *n_copies = (uint32_t)copies;
    *n_experts = experts;
    return KT_EXIT_OK;
}

static uint64_t source_size(const struct bench_source *source, uint32_t n_experts)
{
    const struct kt_expert *expert = source->experts;
    return n_experts *
           (kt_view_bytes(&expert->gate) + kt_view_bytes(&expert->up) + kt_view_bytes(&expert->down));
}

static int load_copy(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                     struct bench_set *set, uint32_t i)
{
    const struct kt_expert *experts = want->source->experts;
    struct kt_error error;
    int code = set->linears != NULL ? make_linear(cli, context, want, &set->linears[i])
                                    : make_layer(cli, context, want, set->n_experts, &set->layers[i]);
    if (code != KT_EXIT_OK)
        return code;
    double start = bench_now();
    enum kt_status status = set->linears != NULL
                                ? kt_linear_load(set->linears[i], &experts->down, NULL, &error)
                                : kt_layer_load(set->layers[i], experts, set->n_experts, &error);
    if (status != KT_OK) {
        kt_progress_stop();
        return kt_cli_fail(cli, &error);
    }
    double rate = (double)source_size(want->source, set->n_experts) / (bench_now() - start);
    set->load_rate = rate > set->load_rate ? rate : set->load_rate;
    return KT_EXIT_OK;
}

static int load_copies(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                       struct bench_set *set)
{
    int code = KT_EXIT_OK;
    kt_progress_start(cli,
                      want->shape->linear ? "packing copies of the linear" : "packing copies of the layer");
    for (uint32_t i = 0; i < set->n_copies && code == KT_EXIT_OK; i++) {
        code = load_copy(cli, context, want, set, i);
        kt_progress_update(i + 1, set->n_copies);
    }
    kt_progress_stop();
    return code;
}

static void describe_layer(struct bench_set *set)
{
    struct kt_layer_info info;
    kt_layer_info(set->layers[0], &info);
    set->backend = info.backend;
    set->level = info.level;
    set->instruction = info.instruction;
    set->nominal_size = info.nominal_size;
    set->packed_size = info.packed_size;
}

static void describe_linear(struct bench_set *set)
{
    struct kt_linear_info info;
    kt_linear_info(set->linears[0], &info);
    set->backend = info.backend;
    set->level = info.level;
    set->instruction = info.instruction;
    set->nominal_size = info.nominal_size;
    set->packed_size = info.packed_size;
}

int bench_set_create(struct kt_cli *cli, struct kt_context *context, const struct bench_want *want,
                     struct bench_set *set)
{
    struct kt_plan plan;
    const struct bench_shape *shape = want->shape;
    struct bench_set made = {.top_k = shape->top_k,
                             .n_matrices = 3 - kt_activation_first(want->source->activation),
                             .activation = want->source->activation,
                             .output_size = shape->hidden_size,
                             .input_size = shape->linear ? shape->intermediate_size : shape->hidden_size};
    int code = make_plan(cli, context, want, &plan);
    if (code == KT_EXIT_OK)
        code = cut_to_memory(cli, want, &plan, &made.n_copies, &made.n_experts);
    if (code != KT_EXIT_OK)
        return code;
    if (shape->linear)
        made.linears = kt_cli_alloc(cli, made.n_copies, sizeof *made.linears);
    else
        made.layers = kt_cli_alloc(cli, made.n_copies, sizeof *made.layers);
    code = load_copies(cli, context, want, &made);
    if (code != KT_EXIT_OK) {
        bench_set_destroy(&made);
        return code;
    }
    (shape->linear ? describe_linear : describe_layer)(&made);
    if (made.packed_size == 0) /* the backend reads a copy of the source */
        made.packed_size = copy_size(&plan, made.n_experts);
    *set = made;
    return KT_EXIT_OK;
}

enum kt_status bench_set_forward(const struct bench_set *set, uint32_t copy, const struct kt_forward *forward,
                                 struct kt_error *error)
{
    if (set->layers != NULL)
        return kt_layer_forward(set->layers[copy], forward, error);
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    const struct kt_linear_output output = {.linear = set->linears[copy],
                                            .output = forward->output,
                                            .output_dtype = forward->output_dtype};
    batch.outputs = &output;
    batch.n_outputs = 1;
    batch.n_tokens = forward->n_tokens;
    batch.input = forward->input;
    batch.input_dtype = forward->input_dtype;
    return kt_linear_forward(&batch, error);
}

void bench_set_destroy(struct bench_set *set)
{
    for (uint32_t i = 0; i < set->n_copies; i++) {
        if (set->layers != NULL)
            kt_layer_destroy(set->layers[i]);
        if (set->linears != NULL)
            kt_linear_destroy(set->linears[i]);
    }
    free(set->layers);
    free(set->linears);
    *set = (struct bench_set){0};
}
