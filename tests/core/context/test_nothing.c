/* SPDX-License-Identifier: Apache-2.0 */
/* test_nothing.c - NULL for what functions need, numbers behind the last, and addresses that numbers cannot
 * have: refused with words, for each. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

/* It is refused, and the words say what must not be so. */
#define nothing(call) ck_fails(call, KT_E_INVALID, "must not be NULL")

START_TEST(contexts)
{
    struct kt_context *context = fixture_context(1);
    struct kt_backend_info backend;
    struct kt_setting setting;
    struct kt_node_info node;
    nothing(kt_context_create(NULL, NULL, &ck_error));
    nothing(kt_context_backend(NULL, 0, &backend, &ck_error));
    nothing(kt_context_backend(context, 0, NULL, &ck_error));
    nothing(kt_context_backend_option(NULL, 0, 0, &setting, &ck_error));
    nothing(kt_context_backend_option(context, 0, 0, NULL, &ck_error));
    nothing(kt_context_node(NULL, 0, &node, &ck_error));
    nothing(kt_context_node(context, 0, NULL, &ck_error));
    ck_fails(kt_context_backend(context, 99, &backend, &ck_error), KT_E_RANGE,
             "backend 99: the context has ");
    ck_fails(kt_context_backend_option(context, 0, 99, &setting, &ck_error), KT_E_RANGE, "option 99: ");
    ck_fails(kt_context_node(context, 99, &node, &ck_error), KT_E_RANGE, "node 99: the context has ");
    kt_context_destroy(context);
}
END_TEST

START_TEST(layers)
{
    struct kt_context *context = fixture_context(1);
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_expert expert = {.gate_bias = NULL};
    struct kt_plan plan;
    float number;
    uint64_t count;
    params.n_experts = params.top_k = 1;
    params.hidden_size = params.intermediate_size = 32;
    params.max_tokens = 1;
    nothing(kt_layer_create(NULL, &params, &layer, &ck_error));
    nothing(kt_layer_create(context, NULL, &layer, &ck_error));
    nothing(kt_layer_create(context, &params, NULL, &ck_error));
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    nothing(kt_layer_load(NULL, &expert, 1, &ck_error));
    nothing(kt_layer_load(layer, NULL, 1, &ck_error));
    nothing(kt_layer_load_checkpoint(NULL, NULL, 0, &ck_error));
    nothing(kt_layer_load_checkpoint(layer, NULL, 0, &ck_error));
    nothing(kt_layer_plan(NULL, &expert, &plan, &ck_error));
    nothing(kt_layer_plan_checkpoint(layer, NULL, 0, &plan, &ck_error));
    nothing(kt_layer_populate(NULL, &ck_error));
    nothing(kt_layer_weights(NULL, 0, KT_GATE, 0, 1, &number, &ck_error));
    nothing(kt_layer_usage(NULL, &count, 1, &ck_error));
    ck_fails(kt_layer_weights(layer, 0, KT_GATE, 0, 1, &number, &ck_error), KT_E_STATE, "load it first");
    kt_layer_destroy(layer);
    kt_context_destroy(context);
}
END_TEST

START_TEST(linears)
{
    struct kt_context *context = fixture_context(1);
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_view view = KT_VIEW_INIT;
    struct kt_plan plan;
    float number;
    nothing(kt_linear_create(context, &params, NULL, &ck_error));
    nothing(kt_linear_load(NULL, &view, NULL, &ck_error));
    nothing(kt_linear_plan(NULL, &view, 0, &plan, &ck_error));
    nothing(kt_linear_weights(NULL, 0, 1, &number, &ck_error));
    nothing(kt_linear_populate(NULL, &ck_error));
    nothing(kt_linear_forward(NULL, &ck_error));
    kt_context_destroy(context);
}
END_TEST

START_TEST(caches)
{
    struct kt_kv_place place;
    struct kt_kv_info info;
    struct kt_kv *kv;
    struct kt_kv_sequence *sequence;
    void *state;
    nothing(kt_kv_create(NULL, NULL, &kv, &ck_error));
    nothing(kt_kv_plan(NULL, NULL, &info, &ck_error));
    nothing(kt_kv_place(NULL, 0, 0, 0, &place, &ck_error));
    nothing(kt_kv_sequence_open(NULL, &sequence, &ck_error));
    nothing(kt_kv_sequence_commit(NULL, 1, &ck_error));
    nothing(kt_kv_sequence_fork(NULL, 0, &sequence, &ck_error));
    nothing(kt_kv_sequence_reserve(NULL, 0, 1, &ck_error));
    nothing(kt_kv_sequence_truncate(NULL, 0, &ck_error));
    nothing(kt_kv_sequence_state(NULL, 0, 0, 0, &state, &ck_error));
    nothing(kt_attention_create(NULL, NULL, NULL, &ck_error));
    nothing(kt_attention_forward(NULL, NULL, &ck_error));
    nothing(kt_attention_tunable(NULL, 0, NULL, &ck_error));
}
END_TEST

START_TEST(others)
{
    nothing(kt_stats_open("nowhere", NULL, &ck_error));
    nothing(kt_recorder_save(NULL, "nowhere", &ck_error));
    nothing(kt_recorder_drain(NULL, NULL, NULL, &ck_error));
    nothing(kt_stream_runtime_open(NULL, NULL, &ck_error));
}
END_TEST

/* Numbers begin where their type may; the bytes of weights anywhere. */
START_TEST(checkpoints)
{
    struct kt_value value;
    struct kt_stored_linear_info linear;
    const void *data;
    uint64_t size;
    char text[17];
    ck_fails(kt_checkpoint_value(NULL, 0, &value, &ck_error), KT_E_INVALID, "the checkpoint is NULL");
    ck_fails(kt_checkpoint_value_find(NULL, "key", &value, &ck_error), KT_E_INVALID,
             "the checkpoint is NULL");
    ck_fails(kt_value_uint(NULL, 0, &size, &ck_error), KT_E_INVALID, "the value is NULL");
    ck_fails(kt_value_text(NULL, &size, NULL, NULL, &ck_error), KT_E_INVALID, "the value is NULL");
    ck_fails(kt_checkpoint_linear(NULL, 0, &linear, &ck_error), KT_E_INVALID, "the checkpoint is NULL");
    ck_fails(kt_checkpoint_fingerprint(NULL, text, &ck_error), KT_E_INVALID, "the checkpoint is NULL");
    ck_fails(kt_checkpoint_file(NULL, "config.json", &data, &size, &ck_error), KT_E_INVALID, "is NULL");
}
END_TEST

START_TEST(writers)
{
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_writer *writer;
    nothing(kt_writer_create("none", &params, NULL, &ck_error));
    nothing(kt_writer_add(NULL, &params, 1, &ck_error));
    nothing(kt_writer_finish(NULL, &ck_error));
    params.n_tensors = 1;
    ck_fails(kt_writer_create("none", &params, &writer, &ck_error), KT_E_INVALID,
             "tensors or metadata is NULL");
}
END_TEST

START_TEST(addresses)
{
    struct fixture fixture = {.n_tokens = 3};
    struct kt_error error;
    fixture_fill(&fixture, 3);
    uint64_t size = fixture.hidden * fixture.intermediate * sizeof(float);
    char *moved = malloc(3 * 5 * (size + 2) + 1);
    ck_assert_ptr_nonnull(moved);
    for (uint64_t e = 0; e < 5; e++)
        for (uint64_t p = 0; p < 3; p++) {
            struct kt_view *views[] = {&fixture.experts[e].gate, &fixture.experts[e].up,
                                       &fixture.experts[e].down};
            char *to = moved + 1 + (3 * e + p) * (size + 2 - size % 2);
            ck_assert_uint_eq(views[p]->size, size);
            views[p]->data = memcpy(to, views[p]->data, size);
        }
    fixture_load(&fixture, 1);
    const struct kt_forward good = fixture_forward(&fixture);
    for (uint32_t i = 0; i < 8; i++) {
        static const char *const words[] = {"expert_ids", "router_weights", "input", "output"};
        static const uint32_t sizes[] = {8, 4, 4, 4};
        struct kt_forward forward = good;
        intptr_t by = i < 4 ? 1 : sizes[i % 4] / 2;
        if (i % 4 == 0)
            forward.expert_ids = (const int64_t *)((intptr_t)good.expert_ids + by);
        else if (i % 4 == 1)
            forward.router_weights = (const float *)((intptr_t)good.router_weights + by);
        else if (i % 4 == 2)
            forward.input = (const char *)good.input + by;
        else
            forward.output = (char *)good.output + by;
        ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_INVALID);
        ck_assert_msg(strstr(error.message, words[i % 4]) &&
                          strstr(error.message, "not a multiple of its numbers'"),
                      "%s", error.message);
    }
    fixture_model(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &good, &ck_error));
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    fixture_free(&fixture);
    free(moved);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_test(all, addresses);
    tcase_add_test(all, contexts);
    tcase_add_test(all, layers);
    tcase_add_test(all, linears);
    tcase_add_test(all, caches);
    tcase_add_test(all, others);
    tcase_add_test(all, checkpoints);
    tcase_add_test(all, writers);
    return run_tests("nothing", all);
}
