/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c - a layer of kt forward: loads it, runs recorded batches and times them. */
#include "tools/kt/forward/forward.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_BATCH 1024 /* larger inputs run in chunks */

/* All batches, one after another, as they were recorded. */
static int forward_batches(const struct forward_run *run, struct kt_layer *layer,
                           const struct kt_trace *trace, float *values)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    uint64_t row = trace->hidden_size * (trace->input_dtype == KT_DTYPE_F32 ? 4 : 2), token = 0;
    struct kt_error error;
    forward.top_k = trace->top_k;
    forward.input_dtype = trace->input_dtype;
    forward.output_dtype = KT_DTYPE_F32;
    for (uint32_t b = 0; b < trace->n_batches; token += trace->batch[b++]) {
        forward.n_tokens = trace->batch[b];
        forward.expert_ids = trace->ids + token * trace->top_k;
        forward.router_weights = trace->weights + token * trace->top_k;
        forward.input = (const char *)trace->input + token * row;
        forward.output = values + token * trace->hidden_size;
        if (kt_layer_forward(layer, &forward, &error) != KT_OK)
            return kt_cli_fail(run->cli, &error);
    }
    return KT_EXIT_OK;
}

/* The median of up to five runs in a tenth of a second; the first one warms up unless it took long. */
static int forward_timed(struct forward_run *run, struct kt_layer *layer, const struct kt_trace *trace,
                         struct forward_outcome *outcome)
{
    bool keeps = !outcome->once;
    double time[6];
    int n = 0, code = KT_EXIT_OK;
    double first = kt_cli_now();
    for (; n < 6 && (n == 0 || (!outcome->once && kt_cli_now() - first < 0.1)); n++) {
        if (n == 0 && keeps)
            code = kt_keeping_begin(&run->keeping, run->context, layer, trace->layer);
        double begin = kt_cli_now();
        if (code == KT_EXIT_OK)
            code = forward_batches(run, layer, trace, outcome->values);
        time[n] = kt_cli_now() - begin;
        if (code == KT_EXIT_OK && n == 0 && keeps)
            code = kt_keeping_end(&run->keeping, layer, trace->layer);
        if (code != KT_EXIT_OK)
            return code;
        for (int i = n; i > 1 && time[i] < time[i - 1]; i--) {
            double swap = time[i];
            time[i] = time[i - 1];
            time[i - 1] = swap;
        }
    }
    double median = n == 1 ? time[0] : time[1 + (n - 2) / 2];
    kt_verbose_time(run->cli, "forward", first, "layer %" PRIu64 ", %" PRIu64 " tokens, %d times",
                    trace->layer, (uint64_t)trace->n_tokens, n);
    outcome->us_per_token = median * 1e6 / trace->n_tokens;
    return KT_EXIT_OK;
}

/* Warns if the requested backend does not run, with its reason. */
static void say_fallback(const struct forward_run *run, const struct kt_moe_info *moe,
                         const struct kt_plan *plan)
{
    const char *chosen = "", *refused = "", *reason = "no reason given";
    if (*moe->stored_form) {
        kt_cli_warn(run->cli,
                    "layer %" PRIu64 ": %s runs instead of the preferred backend: its weights are "
                    "stored as %s",
                    moe->layer, moe->stored_backend, moe->stored_form);
        return;
    }

    for (uint32_t c = plan->n_candidates; c-- > 0;) {
        if (plan->candidate[c].chosen) {
            chosen = plan->candidate[c].backend;
        } else if (*plan->candidate[c].reason) {
            refused = plan->candidate[c].backend;
            reason = plan->candidate[c].reason;
        }
    }
    kt_cli_warn(run->cli, "layer %" PRIu64 ": %s runs instead of %s: %s", moe->layer, chosen, refused,
                reason);
}

/* Plans and loads the layer. */
static int load(const struct forward_run *run, const struct kt_moe_info *moe, struct kt_layer *layer,
                struct forward_outcome *outcome)
{
    struct kt_plan *plan = kt_cli_alloc(run->cli, 1, sizeof(*plan));
    struct kt_layer_info info;
    struct kt_error error;
    char weights[32], buffers[32];
    double start = kt_cli_now();
    enum kt_status status = kt_layer_plan_checkpoint(layer, run->model, moe->layer, plan, &error);
    if (status == KT_OK) {
        kt_verbose_time(run->cli, "plan", start, "layer %" PRIu64, moe->layer);
        kt_cli_info(run->cli, "layer %" PRIu64 ": weights %s, buffers %s", moe->layer,
                    kt_bytes_text(plan->weight_size, weights, sizeof(weights)),
                    kt_bytes_text(plan->buffer_size, buffers, sizeof(buffers)));
        outcome->fallback = plan->fallback != 0;
        if (outcome->fallback)
            say_fallback(run, moe, plan);
        start = kt_cli_now();
        status = kt_layer_load_checkpoint(layer, run->model, moe->layer, &error);
    }
    free(plan);
    if (status != KT_OK)
        return kt_cli_fail(run->cli, &error);
    kt_layer_info(layer, &info);
    kt_verbose_time(run->cli, "load", start, "layer %" PRIu64 ", %s at %s", moe->layer, info.backend,
                    info.level);
    snprintf(outcome->backend, sizeof(outcome->backend), "%s", info.backend);
    snprintf(outcome->level, sizeof(outcome->level), "%s", info.level);
    snprintf(outcome->rounding, sizeof(outcome->rounding), "%s", info.rounding);
    return KT_EXIT_OK;
}

int forward_backend(struct forward_run *run, const struct kt_moe_info *moe, const struct kt_trace *trace,
                    const char *backend, struct forward_outcome *outcome)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_error error;
    char name[32];
    snprintf(name, sizeof(name), "layer %" PRIu64, moe->layer);
    if (kt_checkpoint_layer_params(run->model, moe->layer, &params, &error) != KT_OK)
        return kt_cli_fail(run->cli, &error);
    params.name = name;
    params.top_k = trace->top_k;
    for (uint32_t b = 0; b < trace->n_batches; b++) {
        if (trace->batch[b] > params.max_tokens)
            params.max_tokens = trace->batch[b] < MAX_BATCH ? trace->batch[b] : MAX_BATCH;
    }
    params.backend = backend;
    if (kt_layer_create(run->context, &params, &layer, &error) != KT_OK)
        return kt_cli_fail(run->cli, &error);
    int code = load(run, moe, layer, outcome);
    if (code == KT_EXIT_OK)
        code = forward_timed(run, layer, trace, outcome);
    kt_layer_destroy(layer);
    return code;
}
