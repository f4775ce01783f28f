/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expected.c - what a pass should have given.
 *
 * A slot's product w * y is what the layer gives for that token and expert alone with weight 1, times the
 * weight in double. The engine rounds each product and each sum to float32, so a number is off by at most
 * 2^-24 of the sum of all |w * y|, once for each rounding: one a product, one a sum.
 */
#include "tests/support/deferral_rule.h"
#include "tests/core/async/engine/engine.h"

#include <math.h>
#include <string.h>

struct sums {
    double value[ENGINE_TOKENS * ENGINE_HIDDEN], size[ENGINE_TOKENS * ENGINE_HIDDEN];
};

static struct kt_forward forward_of(const struct engine *engine, const struct engine_record *record)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    forward.n_tokens = record->n_tokens;
    forward.top_k = ENGINE_TOP_K;
    forward.expert_ids = record->ids;
    forward.router_weights = record->weights;
    forward.input = record->input;
    forward.input_dtype = engine->params.input_dtype;
    forward.output_dtype = KT_DTYPE_F32;
    return forward;
}

static void add_slot(const struct engine *engine, uint32_t position, uint32_t t, uint32_t k,
                     struct sums *sums)
{
    const struct engine_record *record = &engine->record[position];
    struct kt_forward forward = forward_of(engine, record);
    uint64_t hidden = engine->params.hidden, element = forward.input_dtype == KT_DTYPE_F32 ? 4 : 2;
    double weight = (double)record->weights[t * ENGINE_TOP_K + k];
    float y[ENGINE_HIDDEN];
    forward.n_tokens = forward.top_k = 1;
    forward.expert_ids = &record->ids[t * ENGINE_TOP_K + k];
    forward.router_weights = &(float){1};
    forward.input = (const char *)record->input + t * hidden * element;
    forward.output = y;
    enum kt_status status = kt_layer_forward(engine->all[position], &forward, NULL);
    ck_assert_int_eq(status, KT_OK);
    for (uint64_t i = 0; i < hidden; i++) {
        sums->value[t * hidden + i] += weight * (double)y[i];
        sums->size[t * hidden + i] += fabs(weight * (double)y[i]);
    }
}

/* Adds a layer's experts to its own sums or to those of the next layer. */
static void add_layer(const struct engine *engine, uint32_t position, struct sums *now, struct sums *later)
{
    const struct engine_record *record = &engine->record[position];
    struct kt_forward forward = forward_of(engine, record);
    uint32_t max = engine->params.max_deferred < ENGINE_TOP_K ? engine->params.max_deferred : ENGINE_TOP_K;
    uint32_t n_protected = position + 1 < ENGINE_MOE ? ENGINE_TOP_K - max : ENGINE_TOP_K;
    for (uint32_t t = 0; t < record->n_tokens; t++)
        for (uint32_t k = 0; k < ENGINE_TOP_K; k++) {
            int64_t id = record->ids[t * ENGINE_TOP_K + k];
            if (id < 0)
                continue;
            bool at_once = record->on_gpu[id] ||
                           rule_is_immediate(&forward, t, k, n_protected, engine->params.per_token != 0);
            add_slot(engine, position, t, k, at_once ? now : later);
        }
}

static void compare(const struct engine *engine, uint32_t position, const float *output,
                    const struct sums *sums)
{
    const double unit = (2 * 2 * ENGINE_TOP_K + 2) * 0x1p-24;
    for (uint64_t i = 0; i < engine->record[position].n_tokens * engine->params.hidden; i++)
        if (!(fabs((double)output[i] - sums->value[i]) <= unit * sums->size[i]))
            ck_abort_msg("layer %u of experts, number %llu: %.9g instead of %.9g", position,
                         (unsigned long long)i, (double)output[i], sums->value[i]);
}

/* Without deferral: also the whole layer on the CPU alone. */
static void compare_whole(const struct engine *engine, uint32_t position, const struct sums *sums)
{
    float output[ENGINE_TOKENS * ENGINE_HIDDEN];
    struct kt_forward forward = forward_of(engine, &engine->record[position]);
    forward.output = output;
    ck_ok(kt_layer_forward(engine->all[position], &forward, &ck_error));
    compare(engine, position, output, sums);
}

void engine_check(const struct engine *engine)
{
    struct sums sums[2] = {{{0}, {0}}, {{0}, {0}}};
    for (uint32_t p = 0; p < ENGINE_MOE; p++) {
        struct sums *now = &sums[p % 2], *later = &sums[1 - p % 2];
        memset(later, 0, sizeof *later);
        add_layer(engine, p, now, later);
        compare(engine, p, engine->record[p].output, now);
        if (!engine->params.max_deferred)
            compare_whole(engine, p, now);
    }
}
