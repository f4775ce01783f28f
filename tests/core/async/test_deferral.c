/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred experts against a plain model of the rule: the same bits, for passes through several layers. */
#include "tests/support/deferral_rule.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, EXPERTS = 6, MAX_TOKENS = 9, TOP_K = 4, HIDDEN = 24 };

/* A model: a fixture has the experts of a layer; batches are made for each pass. */
struct model {
    struct kt_context *context;
    struct fixture fixture[LAYERS];
    struct kt_layer *layer[LAYERS];
    uint8_t mask[LAYERS][EXPERTS];
};

static void open_model(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof *model);
    model->context = fixture_context(2);
    for (int l = 0; l < LAYERS; l++) {
        struct fixture *fixture = &model->fixture[l];
        *fixture = (struct fixture){.n_experts = EXPERTS,
                                    .top_k = TOP_K,
                                    .n_tokens = MAX_TOKENS,
                                    .max_tokens = 4, /* so that batches run in chunks */
                                    .hidden = HIDDEN,
                                    .intermediate = 16,
                                    .mask = model->mask[l]};
        fixture_fill(fixture, seed * 100 + (uint64_t)l);
        struct kt_layer_params params = fixture_params(fixture);
        ck_ok(kt_layer_create(model->context, &params, &model->layer[l], &ck_error));
        ck_ok(kt_layer_load(model->layer[l], fixture->experts, EXPERTS, &ck_error));
    }
}

static void close_model(struct model *model)
{
    for (int l = 0; l < LAYERS; l++) {
        kt_layer_destroy(model->layer[l]);
        fixture_free(&model->fixture[l]);
    }
    kt_context_destroy(model->context);
}

static struct kt_deferral *make_deferral_of(const struct model *model, uint32_t max_deferred,
                                            uint32_t per_token, const uint32_t *of)
{
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral;
    params.n_layers = LAYERS;
    params.n_experts = EXPERTS;
    params.top_k = TOP_K;
    params.max_tokens = MAX_TOKENS;
    params.hidden_size = HIDDEN;
    params.max_deferred = max_deferred;
    params.per_token = per_token;
    params.max_deferred_of = of;
    ck_ok(kt_deferral_create(model->context, &params, &deferral, &ck_error));
    return deferral;
}

static struct kt_deferral *make_deferral(const struct model *model, uint32_t max_deferred, uint32_t per_token)
{
    return make_deferral_of(model, max_deferred, per_token, NULL);
}

/* ---- passes by the rule ---- */

struct late {
    bool any;
    float rows[MAX_TOKENS * HIDDEN];
};

/* One layer by the rule; `late` comes in with the last layer's deferred experts and goes out with this one's.
 */
static void run_rule(struct model *model, int l, const struct kt_forward *forward, uint32_t max_deferred,
                     bool per_token, float *output, struct late *late)
{
    int64_t now[MAX_TOKENS * TOP_K], later[MAX_TOKENS * TOP_K];
    uint32_t n = l + 1 == LAYERS ? TOP_K : max_deferred < TOP_K ? TOP_K - max_deferred : 0;
    struct kt_forward part = *forward;
    bool any = false;
    for (uint32_t t = 0; t < forward->n_tokens; t++)
        for (uint32_t k = 0; k < TOP_K; k++) {
            int64_t id = forward->expert_ids[t * TOP_K + k];
            bool first = id < 0 || rule_is_immediate(forward, t, k, n, per_token);
            now[t * TOP_K + k] = first ? id : -1;
            later[t * TOP_K + k] = first ? -1 : id;
            any |= !first && !model->mask[l][id];
        }
    if (late->any)
        memcpy(output, late->rows, sizeof late->rows);
    part.expert_ids = now;
    part.output = output;
    part.accumulate = late->any;
    ck_ok(kt_layer_forward(model->layer[l], &part, &ck_error));
    part.expert_ids = later;
    part.output = late->rows;
    part.accumulate = 0;
    ck_ok(kt_layer_forward(model->layer[l], &part, &ck_error));
    late->any = any;
}

/* ---- batches ---- */

struct batch {
    int64_t ids[MAX_TOKENS * TOP_K];
    float weights[MAX_TOKENS * TOP_K], input[MAX_TOKENS * HIDDEN], output[MAX_TOKENS * HIDDEN];
};

/* Weights from a few values, so that some are equal; ids that are different in a token, or -1. */
static struct kt_forward make_batch(struct batch *batch, uint32_t n_tokens, uint64_t *state)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    for (uint32_t t = 0; t < n_tokens; t++) {
        int64_t first = (int64_t)(fixture_uniform(state) * EXPERTS);
        for (uint32_t k = 0; k < TOP_K; k++) {
            batch->ids[t * TOP_K + k] = fixture_uniform(state) < 0.1 ? -1 : (first + k) % EXPERTS;
            batch->weights[t * TOP_K + k] = (float)(1 + (int)(fixture_uniform(state) * 5)) / 4;
        }
    }
    for (int i = 0; i < MAX_TOKENS * HIDDEN; i++) {
        batch->input[i] = (float)fixture_gaussian(state);
        batch->output[i] = -77;
    }
    forward.n_tokens = n_tokens;
    forward.top_k = TOP_K;
    forward.expert_ids = batch->ids;
    forward.router_weights = batch->weights;
    forward.input = batch->input;
    forward.output = batch->output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    return forward;
}

/* What the ticket has released may be used again at once. */
static void spoil(struct batch *batch)
{
    memset(batch->ids, 0, sizeof batch->ids);
    memset(batch->weights, 0xff, sizeof batch->weights);
    memset(batch->input, 0xff, sizeof batch->input);
}

/* max_deferred by layer. */
static void check_pass_of(struct model *model, struct kt_deferral *deferral, uint32_t n_tokens,
                          const uint32_t *max_deferred, bool per_token, uint64_t *state)
{
    static struct batch batch;
    static struct late late;
    late.any = false;
    for (int l = 0; l < LAYERS; l++) {
        float expected[MAX_TOKENS * HIDDEN];
        uint64_t ticket;
        for (int e = 0; e < EXPERTS; e++)
            model->mask[l][e] = fixture_uniform(state) < 0.2;
        struct kt_forward forward = make_batch(&batch, n_tokens, state);
        run_rule(model, l, &forward, max_deferred[l], per_token, expected, &late);
        ck_ok(kt_deferral_submit(deferral, (uint32_t)l, model->layer[l], &forward, &ticket, &ck_error));
        ck_ok(kt_wait(model->context, ticket, &ck_error));
        spoil(&batch);
        memset(model->mask[l], 1, EXPERTS); /* the GPU took them all, after they were asked for */
        for (uint32_t i = 0; i < n_tokens * HIDDEN; i++)
            if (memcmp(&batch.output[i], &expected[i], sizeof expected[i]) != 0)
                ck_abort_msg("layer %d, number %u: %g instead of %g", l, i, (double)batch.output[i],
                             (double)expected[i]);
        for (uint32_t i = n_tokens * HIDDEN; i < MAX_TOKENS * HIDDEN; i++)
            if (batch.output[i] != -77)
                ck_abort_msg("layer %d wrote past its %u tokens", l, n_tokens);
    }
}

static void check_pass(struct model *model, struct kt_deferral *deferral, uint32_t n_tokens,
                       uint32_t max_deferred, bool per_token, uint64_t *state)
{
    uint32_t all[LAYERS];
    for (int l = 0; l < LAYERS; l++)
        all[l] = max_deferred;
    check_pass_of(model, deferral, n_tokens, all, per_token, state);
}

START_TEST(passes_follow_the_rule)
{
    struct model model;
    uint64_t state = (uint64_t)_i + 5;
    open_model(&model, 1);
    for (uint32_t max_deferred = 0; max_deferred <= TOP_K + 1; max_deferred++) {
        struct kt_deferral *deferral = make_deferral(&model, max_deferred, (uint32_t)_i);
        for (uint32_t n_tokens = 1; n_tokens <= MAX_TOKENS; n_tokens += 2)
            check_pass(&model, deferral, n_tokens, max_deferred, _i != 0, &state);
        kt_deferral_destroy(deferral);
    }
    close_model(&model);
}
END_TEST

START_TEST(layers_have_numbers_of_their_own)
{
    static const uint32_t numbers[3][LAYERS] = {{3, 0, 1, 2}, {1, 2, 3, 0}, {0, TOP_K + 1, 2, TOP_K}};
    struct model model;
    uint64_t state = 17;
    open_model(&model, 5);
    for (int i = 0; i < 3; i++) {
        uint32_t of[LAYERS];
        memcpy(of, numbers[i], sizeof of);
        struct kt_deferral *deferral = make_deferral_of(&model, 1, 0, of);
        memset(of, 0, sizeof of); /* it was copied */
        for (uint32_t n_tokens = 1; n_tokens <= 3; n_tokens++)
            check_pass_of(&model, deferral, n_tokens, numbers[i], false, &state);
        kt_deferral_destroy(deferral);
    }
    close_model(&model);
}
END_TEST

/* Two instances of a model, layer by layer in turns, tickets waited for late. */
START_TEST(instances_do_not_meet)
{
    static struct batch batch[2];
    static struct late late[2];
    struct model model;
    uint64_t state = 3, ticket[2];
    float expected[2][MAX_TOKENS * HIDDEN];
    open_model(&model, 2);
    struct kt_deferral *deferral[2] = {make_deferral(&model, 2, 0), make_deferral(&model, 3, 1)};
    for (int l = 0; l < LAYERS; l++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct kt_forward forward = make_batch(&batch[i], 2 + 3 * i, &state);
            run_rule(&model, l, &forward, 2 + i, i, expected[i], &late[i]);
            ck_ok(kt_deferral_submit(deferral[i], (uint32_t)l, model.layer[l], &forward, &ticket[i],
                                     &ck_error));
        }
        for (uint32_t i = 0; i < 2; i++) {
            ck_ok(kt_wait(model.context, ticket[i], &ck_error));
            ck_assert_mem_eq(batch[i].output, expected[i], (2 + 3 * i) * HIDDEN * sizeof(float));
        }
    }
    kt_deferral_destroy(deferral[0]);
    kt_deferral_destroy(deferral[1]);
    close_model(&model);
}
END_TEST

static enum kt_status try_layer(struct model *model, struct kt_deferral *deferral, uint32_t position,
                                const struct kt_forward *forward, struct kt_error *error)
{
    uint64_t ticket;
    enum kt_status status =
        kt_deferral_submit(deferral, position, model->layer[position % LAYERS], forward, &ticket, error);
    return status == KT_OK ? kt_wait(model->context, ticket, error) : status;
}

static void expect(enum kt_status status, enum kt_status wanted, const char *words,
                   const struct kt_error *error)
{
    ck_assert_msg(status == wanted && strstr(error->message, words), "%s (%s) instead of %s, %s",
                  kt_status_name(status), error->message, kt_status_name(wanted), words);
}

/* Nothing of a pass that went wrong reaches the next one. */
START_TEST(wrong_passes)
{
    static struct batch batch;
    struct model model;
    struct kt_error error = {0};
    uint64_t state = 11;
    open_model(&model, 3);
    struct kt_deferral *deferral = make_deferral(&model, 2, 0);
    struct kt_forward forward = make_batch(&batch, 1, &state), more = forward;
    memcpy(batch.ids, (int64_t[]){0, 1, 2, 3}, 4 * sizeof *batch.ids);

    ck_ok(try_layer(&model, deferral, 0, &forward, &ck_error)); /* abandoned */
    check_pass(&model, deferral, 3, 2, false, &state);
    memset(model.mask, 0, sizeof model.mask);

    forward = make_batch(&batch, 1, &state);
    memcpy(batch.ids, (int64_t[]){0, 1, 2, 3}, 4 * sizeof *batch.ids);
    ck_ok(try_layer(&model, deferral, 0, &forward, &ck_error));
    expect(try_layer(&model, deferral, 2, &forward, &error), KT_E_STATE, "wait for position 1", &error);
    check_pass(&model, deferral, 2, 2, false, &state);
    memset(model.mask, 0, sizeof model.mask);

    forward = make_batch(&batch, 1, &state);
    memcpy(batch.ids, (int64_t[]){0, 1, 2, 3}, 4 * sizeof *batch.ids);
    more = forward;
    more.n_tokens = 2;
    memcpy(batch.ids + TOP_K, batch.ids, 4 * sizeof *batch.ids);
    ck_ok(try_layer(&model, deferral, 0, &forward, &ck_error));
    expect(try_layer(&model, deferral, 1, &more, &error), KT_E_STATE, "1 tokens in f32 wait", &error);
    ck_ok(try_layer(&model, deferral, 0, &forward, &ck_error));
    batch.ids[1] = EXPERTS;
    expect(try_layer(&model, deferral, 1, &forward, &error), KT_E_RANGE, "asks for expert 6", &error);
    check_pass(&model, deferral, 5, 2, false, &state);
    memset(model.mask, 0, sizeof model.mask);

    expect(try_layer(&model, deferral, LAYERS, &forward, &error), KT_E_RANGE, "position 4 of 4", &error);
    more.n_tokens = MAX_TOKENS + 1;
    expect(try_layer(&model, deferral, 0, &more, &error), KT_E_INVALID, "up to 9, 4, 6 and for 24", &error);
    expect(kt_deferral_submit(NULL, 0, model.layer[0], &forward, NULL, &error), KT_E_INVALID, "NULL", &error);
    kt_deferral_destroy(deferral);
    close_model(&model);
}
END_TEST

/* With 16-bit output what waits is rounded as the output is. */
START_TEST(sixteen_bits)
{
    static struct batch batch;
    struct model model;
    uint64_t state = 21;
    uint16_t expected[HIDDEN], late[HIDDEN], got[HIDDEN];
    uint32_t dtype = _i ? KT_DTYPE_F16 : KT_DTYPE_BF16;
    open_model(&model, 4);
    struct kt_deferral *deferral = make_deferral(&model, 1, 0);
    struct kt_forward forward = make_batch(&batch, 1, &state);
    memcpy(batch.ids, (int64_t[]){3, 0, 5, 1}, 4 * sizeof *batch.ids);
    memcpy(batch.weights, (float[]){0.5f, 0.125f, 0.25f, 1}, 4 * sizeof *batch.weights);
    forward.output_dtype = dtype;

    struct kt_forward part = forward;
    part.expert_ids = (int64_t[]){-1, 0, -1, -1};
    part.output = late;
    ck_ok(kt_layer_forward(model.layer[0], &part, &ck_error));
    memcpy(expected, late, sizeof late);
    part.expert_ids = (int64_t[]){3, -1, 5, 1};
    part.output = expected;
    part.accumulate = 1;
    ck_ok(kt_layer_forward(model.layer[1], &part, &ck_error));

    forward.output = got;
    struct kt_error error = {0};
    ck_assert_int_eq(try_layer(&model, deferral, 0, &forward, &error), KT_OK);
    ck_assert_int_eq(try_layer(&model, deferral, 1, &forward, &error), KT_OK);
    ck_assert_mem_eq(got, expected, sizeof got);
    kt_deferral_destroy(deferral);
    close_model(&model);
}
END_TEST

START_TEST(wrong_params)
{
    struct kt_context *context = fixture_context(1);
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral;
    struct kt_error error = {0};
    expect(kt_deferral_create(context, &params, &deferral, &error), KT_E_INVALID, "at least 1", &error);
    params = (struct kt_deferral_params){.struct_size = sizeof params,
                                         .n_layers = 1,
                                         .n_experts = 1,
                                         .top_k = UINT32_MAX,
                                         .max_tokens = UINT32_MAX,
                                         .hidden_size = UINT64_MAX / 2};
    expect(kt_deferral_create(context, &params, &deferral, &error), KT_E_INVALID, "too large", &error);
    params.struct_size = 8;
    expect(kt_deferral_create(context, &params, &deferral, &error), KT_E_INVALID, "struct_size 8", &error);
    expect(kt_deferral_create(context, NULL, &deferral, &error), KT_E_INVALID, "NULL", &error);
    kt_deferral_destroy(NULL);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("deferral");
    tcase_add_loop_test(tests, passes_follow_the_rule, 0, 2);
    tcase_add_test(tests, layers_have_numbers_of_their_own);
    tcase_add_test(tests, instances_do_not_meet);
    tcase_add_test(tests, wrong_passes);
    tcase_add_loop_test(tests, sixteen_bits, 0, 2);
    tcase_add_test(tests, wrong_params);
    return run_tests("deferral", tests);
}
