/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer.c - a layer against the definition in double, and everything a caller can get wrong. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include "core/weights/decode/encode.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(struct fixture *fixture, uint32_t threads)
{
    fixture_load(fixture, threads);
    fixture_model(fixture);
    struct kt_forward forward = fixture_forward(fixture);
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
    ck_assert_double_le(fixture_error(fixture), 2e-6);
    fixture_free(fixture);
}

/* Shapes, threads and activations, more threads than experts and fewer among them. */
START_TEST(test_definition)
{
    uint64_t state = (uint64_t)_i;
    struct fixture fixture = {
        .n_experts = 1 + (uint32_t)(fixture_uniform(&state) * 12),
        .n_tokens = 1 + (uint32_t)(fixture_uniform(&state) * 40),
        .hidden = 1 + (uint64_t)(fixture_uniform(&state) * 70),
        .intermediate = 1 + (uint64_t)(fixture_uniform(&state) * 70),
        .activation = fixture_activation(_i),
        .limit = 0.7f,
        .alpha = 1.702f,
        .bias = _i % 2,
    };
    fixture.top_k = 1 + (uint32_t)(fixture_uniform(&state) * (fixture.n_experts < 4 ? fixture.n_experts : 4));
    if (fixture.top_k > fixture.n_experts)
        fixture.top_k = fixture.n_experts;
    fixture.max_tokens = 1 + (uint32_t)(fixture_uniform(&state) * 45);
    fixture_fill(&fixture, (uint64_t)_i + 100);
    check(&fixture, 1 + (uint32_t)_i % 5);
}
END_TEST

/* On one node: threads decide where several nodes cut an expert. */
static void use_first_node(void)
{
    struct kt_context *context = fixture_context(1);
    struct kt_node_info node;
    char number[16];
    ck_ok(kt_context_node(context, 0, &node, &ck_error));
    (void)snprintf(number, sizeof number, "%u", node.os_index);
    (void)setenv("KT_KERNEL_CORE_NUMA_NODES", number, 1);
    kt_context_destroy(context);
}

START_TEST(test_threads_give_same_bits)
{
    float *first = NULL;
    use_first_node();
    for (uint32_t threads = 1; threads <= 9; threads += 2) {
        struct fixture fixture = {.n_tokens = 1 + (uint32_t)_i * 30,
                                  .n_experts = 6,
                                  .top_k = 3,
                                  .hidden = 100,
                                  .intermediate = 60};
        fixture_fill(&fixture, 7);
        fixture_load(&fixture, threads);
        struct kt_forward forward = fixture_forward(&fixture);
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        size_t size = fixture.n_tokens * fixture.hidden * sizeof *first;
        if (first) {
            ck_assert_mem_eq(first, fixture.output, size);
        } else {
            first = malloc(size);
            memcpy(first, fixture.output, size);
        }
        fixture_free(&fixture);
    }
    (void)unsetenv("KT_KERNEL_CORE_NUMA_NODES");
    free(first);
}
END_TEST

/* Shards on made-up nodes: even and uneven cuts, and more nodes than rows. */
START_TEST(test_nodes)
{
    static const char *const topologies[] = {"numa:2 core:2 pu:1", "numa:3 core:1 pu:1",
                                             "numa:8 core:1 pu:1"};
    (void)setenv("HWLOC_SYNTHETIC", topologies[_i % 3], 1);
    struct fixture fixture = {.bias = 1, .intermediate = _i < 3 ? 50 : 5};
    fixture_fill(&fixture, 11);
    fixture_load(&fixture, 0);
    struct kt_context_info info;
    kt_context_info(fixture.context, &info);
    ck_assert_uint_gt(info.n_nodes, 1);
    float row[64];
    for (uint64_t r = 0; r < fixture.hidden; r++) {
        ck_ok(kt_layer_weights(fixture.layer, 3, KT_DOWN, r, 1, row, &ck_error));
        ck_assert_mem_eq(row, fixture.down + (3 * fixture.hidden + r) * fixture.intermediate,
                         fixture.intermediate * sizeof *row);
    }
    fixture_model(&fixture);
    struct kt_forward forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    fixture_free(&fixture);
    (void)unsetenv("HWLOC_SYNTHETIC");
}
END_TEST

START_TEST(test_skipping)
{
    uint8_t mask[5] = {0, 1, 0, 0, 0};
    struct fixture fixture = {.mask = mask};
    fixture_fill(&fixture, 3);
    fixture.ids[0] = -1;
    fixture.ids[3] = INT64_MIN;
    fixture_load(&fixture, 3);
    struct kt_forward forward = fixture_forward(&fixture);
    for (int change = 0; change < 3; change++) {
        mask[change] ^= 1; /* between calls, as an engine moves experts */
        fixture_model(&fixture);
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        ck_assert_double_le(fixture_error(&fixture), 2e-6);
    }
    memset(mask, 1, sizeof mask); /* nothing left: zeros */
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    for (uint64_t i = 0; i < fixture.n_tokens * fixture.hidden; i++)
        ck_assert(fixture.output[i] == 0);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_map_and_duplicates)
{
    const int64_t map[5] = {4, 3, 0, 0, 1};
    struct fixture fixture = {.map = map};
    fixture_fill(&fixture, 5);
    for (uint32_t s = 0; s < 4; s++)
        fixture.ids[s] = 2; /* twice in one token */
    check(&fixture, 2);
}
END_TEST

START_TEST(test_out_of_range)
{
    static const int64_t wrong[] = {5, 6, INT32_MAX, INT64_MAX};
    struct fixture fixture = {0};
    fixture_fill(&fixture, 3);
    fixture_load(&fixture, 2);
    memset(fixture.output, 0x55, fixture.n_tokens * fixture.hidden * sizeof(float));
    fixture.ids[9] = wrong[_i];
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_error error;
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_RANGE);
    char words[64];
    (void)snprintf(words, sizeof words, "token 4, slot 1 asks for expert %lld", (long long)wrong[_i]);
    ck_assert_ptr_nonnull(strstr(error.message, words));
    for (uint64_t i = 0; i < fixture.n_tokens * fixture.hidden * sizeof(float); i++)
        ck_assert_int_eq(((unsigned char *)fixture.output)[i], 0x55);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_nan_stays)
{
    static const float poison[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-42f};
    struct fixture fixture = {.n_tokens = 9, .top_k = 3};
    fixture_fill(&fixture, 21);
    fixture_load(&fixture, 2);
    struct kt_forward forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    size_t row = fixture.hidden * sizeof(float), size = fixture.n_tokens * row;
    float *clean = malloc(size);
    memcpy(clean, fixture.output, size);
    fixture.input[4 * fixture.hidden + 5] = poison[_i];
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    for (uint32_t t = 0; t < fixture.n_tokens; t++)
        if (t != 4)
            ck_assert_mem_eq(clean + t * fixture.hidden, fixture.output + t * fixture.hidden, row);
    if (isnan(poison[_i]))
        for (uint64_t i = 0; i < fixture.hidden; i++)
            ck_assert(isnan(fixture.output[4 * fixture.hidden + i]));
    free(clean);
    fixture_free(&fixture);
}
END_TEST

static uint16_t to_half(uint32_t dtype, float value)
{
    return dtype == KT_DTYPE_BF16 ? kt_to_bf16(value) : kt_to_f16(value);
}

static float from_half(uint32_t dtype, uint16_t half)
{
    return dtype == KT_DTYPE_BF16 ? kt_bf16_float(half) : kt_f16_float(half);
}

/* Strided 16-bit rows in and out, added to what is there. */
START_TEST(test_types_and_strides)
{
    uint32_t dtype = _i % 2 ? KT_DTYPE_BF16 : KT_DTYPE_F16;
    struct fixture fixture = {.n_tokens = 6};
    fixture_fill(&fixture, 9);
    uint64_t pitch = fixture.hidden + 3;
    uint16_t *in = malloc(fixture.n_tokens * pitch * 2), *out = malloc(fixture.n_tokens * pitch * 2);
    for (uint32_t t = 0; t < fixture.n_tokens; t++)
        for (uint64_t i = 0; i < pitch; i++) {
            float *value = &fixture.input[t * fixture.hidden + (i < fixture.hidden ? i : 0)];
            in[t * pitch + i] = to_half(dtype, *value);
            out[t * pitch + i] = to_half(dtype, 1.5f);
            if (i < fixture.hidden)
                *value = from_half(dtype, in[t * pitch + i]);
        }
    fixture_load(&fixture, 2);
    fixture_model(&fixture);
    struct kt_forward forward = fixture_forward(&fixture);
    forward.input = in;
    forward.output = out;
    forward.input_dtype = forward.output_dtype = dtype;
    forward.input_stride = forward.output_stride = (int64_t)(pitch * 2);
    forward.accumulate = (uint32_t)_i / 2;
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    double unit = dtype == KT_DTYPE_BF16 ? 0x1p-8 : 0x1p-11; /* half a unit in the last place */
    for (uint32_t t = 0; t < fixture.n_tokens; t++)
        for (uint64_t i = 0; i < pitch; i++) {
            double expected = (forward.accumulate ? 1.5 : 0) +
                              (i < fixture.hidden ? fixture.expected[t * fixture.hidden + i] : 0);
            if (i >= fixture.hidden) /* the gap between rows is not ours */
                ck_assert_uint_eq(out[t * pitch + i], to_half(dtype, 1.5f));
            else
                ck_assert_double_le(fabs((double)from_half(dtype, out[t * pitch + i]) - expected),
                                    fabs(expected) * unit * 1.01 + 1e-6);
        }
    free(in);
    free(out);
    fixture_free(&fixture);
}
END_TEST

static bool comes_back(uint16_t half)
{
    float value = kt_f16_float(half), brain = kt_bf16_float(half);
    return (isnan(value) ? isnan(kt_f16_float(kt_to_f16(value))) : kt_to_f16(value) == half) &&
           (isnan(brain) ? isnan(kt_bf16_float(kt_to_bf16(brain))) : kt_to_bf16(brain) == half);
}

/* Between this finite float16 and the next. */
static bool rounds_right(uint16_t half)
{
    uint16_t next = (uint16_t)(half + 1);
    float value = kt_f16_float(half), above = kt_f16_float(next), middle = (value + above) / 2;
    return kt_to_f16(middle) == (half & 1 ? next : half) && kt_to_f16(nextafterf(middle, value)) == half &&
           kt_to_f16(nextafterf(middle, above)) == next;
}

/* Every float16 and bfloat16 comes back; numbers between two round to the nearer, ties to even. Libcheck's
 * assertions are system calls: one for each wrong number only. */
START_TEST(test_conversions)
{
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t half = (uint16_t)code;
        if (!comes_back(half) || ((half & 0x7fff) < 0x7c00 - 1 && !rounds_right(half)))
            ck_abort_msg("%04x", code);
    }
    ck_assert_uint_eq(kt_to_f16(65519.99f), 0x7bff);
    ck_assert_uint_eq(kt_to_f16(65520.0f), 0x7c00);
    ck_assert_uint_eq(kt_to_bf16(3.4028235e38f), 0x7f80);
}
END_TEST

static enum kt_status create(const struct kt_layer_params *params, struct kt_error *error)
{
    struct kt_context *context = fixture_context(1);
    struct kt_layer *layer = NULL;
    enum kt_status status = kt_layer_create(context, params, &layer, error);
    ck_assert((status == KT_OK) == (layer != NULL));
    kt_layer_destroy(layer);
    kt_context_destroy(context);
    return status;
}

START_TEST(test_wrong_params)
{
    struct fixture fixture = {.n_experts = 4, .top_k = 2, .hidden = 8, .intermediate = 8, .max_tokens = 1};
    struct kt_layer_params good = fixture_params(&fixture), params = good;
    struct kt_error error;
    const int64_t map[4] = {0, 1, 4, 0};
    ck_assert_int_eq(create(&good, &error), KT_OK);
#define WRONG(field, value, words)                    \
    params = good;                                    \
    params.field = value;                             \
    ck_assert_int_ne(create(&params, &error), KT_OK); \
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message)
    WRONG(struct_size, 8, "struct_size");
    WRONG(n_experts, 0, "n_experts");
    WRONG(n_experts, UINT32_MAX, "n_experts");
    WRONG(top_k, 0, "top_k");
    WRONG(top_k, 5, "top_k");
    WRONG(hidden_size, 0, "hidden_size");
    WRONG(hidden_size, UINT64_MAX, "hidden_size");
    WRONG(intermediate_size, UINT64_C(1) << 40, "intermediate_size");
    WRONG(max_tokens, 0, "max_tokens");
    WRONG(max_tokens, UINT32_MAX, "max_tokens");
    WRONG(activation, 3, "activation");
    WRONG(activation, 99, "activation 99 is unknown");
    WRONG(activation, KT_ACTIVATION_SWIGLU, "activation swiglu needs a limit");
    WRONG(activation, KT_ACTIVATION_SWIGLUSTEP, "activation swiglustep needs a limit");
    WRONG(activation, KT_ACTIVATION_SITU, "finite alpha above 0");
    WRONG(expert_map, map, "expert_map[2]");
    ck_assert_int_eq(kt_layer_create(NULL, &good, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_create(NULL, &good, NULL, NULL), KT_E_INVALID);
}
END_TEST

START_TEST(test_wrong_forward)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 1);
    struct kt_forward good = fixture_forward(&fixture), forward;
    struct kt_error error;
#define REFUSED(field, value, words)                                                   \
    forward = good;                                                                    \
    forward.field = value;                                                             \
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_INVALID); \
    ck_assert_msg(strstr(error.message, words) != NULL, "%s", error.message)
    REFUSED(struct_size, 0, "struct_size");
    REFUSED(top_k, 3, "top_k");
    REFUSED(expert_ids, NULL, "expert_ids");
    REFUSED(router_weights, NULL, "router_weights");
    REFUSED(input, NULL, "input");
    REFUSED(output, NULL, "output");
    REFUSED(input_dtype, KT_DTYPE_Q4_K, "input_dtype is q4_k");
    REFUSED(output_dtype, 77777, "output_dtype");
    REFUSED(input_stride, 4, "input_stride");
    REFUSED(input_stride, -148, "input_stride");
    REFUSED(output_stride, 37 * 4 + 1, "output_stride");
    REFUSED(output_stride, INT64_MAX - 3, "output_stride");
    ck_assert_int_eq(kt_layer_forward(NULL, &good, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_forward(fixture.layer, NULL, NULL), KT_E_INVALID);
    forward = good;
    forward.n_tokens = 0;
    forward.input = NULL;
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_OK);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_wrong_load)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 1);
    struct kt_error error;
    struct kt_forward forward = fixture_forward(&fixture);
    ck_assert_int_eq(kt_layer_load(fixture.layer, fixture.experts, 4, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "5 experts"));
    ck_assert_int_eq(kt_layer_forward(fixture.layer, &forward, &error), KT_E_STATE);
    struct kt_expert *experts = fixture.experts;
    experts[2].down.rows--;
    ck_assert_int_ne(kt_layer_load(fixture.layer, experts, 5, &error), KT_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "expert 2, down"));
    experts[2].down.rows++;
    experts[3].up.dtype = KT_DTYPE_BF16;
    experts[3].up.block_stride = 2;
    ck_assert_int_eq(kt_layer_load(fixture.layer, experts, 5, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "bf16"));
    experts[3].up = experts[2].up;
    experts[4].gate.size--;
    ck_assert_int_ne(kt_layer_load(fixture.layer, experts, 5, &error), KT_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "expert 4, gate"));
    experts[4].gate.size++;
    experts[1].up_bias = fixture.up_bias;
    ck_assert_int_eq(kt_layer_load(fixture.layer, experts, 5, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "biases"));
    experts[1].up_bias = NULL;
    ck_ok(kt_layer_load(fixture.layer, experts, 5, &ck_error));
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    fixture_free(&fixture);
}
END_TEST

/* Lets the view show FP8 whose rows have a scale each. */
static void scale_rows(struct kt_view *view, const uint8_t *codes, const float *scales)
{
    view->data = codes;
    view->dtype = KT_DTYPE_F8_E4M3;
    view->size = view->rows * view->cols;
    view->row_stride = (int64_t)view->cols;
    view->block_stride = 1;
    view->scales = (struct kt_scales){.data = scales,
                                      .size = view->rows * sizeof *scales,
                                      .dtype = KT_DTYPE_F32,
                                      .group_rows = 1,
                                      .group_cols = view->cols,
                                      .row_stride = sizeof *scales,
                                      .col_stride = sizeof *scales};
}

START_TEST(test_wrong_scales)
{
    static const float wrong[] = {NAN, INFINITY, -1};
    static float right[4096], odd[4096];
    static uint8_t codes[1 << 20];
    struct fixture fixture = {0};
    struct kt_error error;
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 1);
    for (int i = 0; i < 4096; i++)
        right[i] = odd[i] = 0.5f;
    odd[3] = wrong[_i];
    struct kt_expert *experts = fixture.experts;
    for (int e = 0; e < 5; e++) {
        scale_rows(&experts[e].gate, codes, right);
        scale_rows(&experts[e].up, codes, right);
        scale_rows(&experts[e].down, codes, right);
    }
    experts[1].up.scales.data = odd;
    ck_assert_int_eq(kt_layer_load(fixture.layer, experts, 5, &error), KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, "expert 1: tensor \"up\": the scale of row 3, column 0") != NULL,
                  "%s", error.message);
    experts[1].up.scales.data = right;
    ck_ok(kt_layer_load(fixture.layer, experts, 5, &ck_error));
    fixture_free(&fixture);
}
END_TEST

/* The source may be freed after load, also where the backend goes on reading it. */
START_TEST(test_source_is_copied)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 2);
    fixture_load(&fixture, 2);
    fixture_model(&fixture);
    size_t size = fixture.n_experts * fixture.hidden * fixture.intermediate * sizeof(float);
    memset(fixture.gate, 0xff, size);
    memset(fixture.up, 0xff, size);
    memset(fixture.down, 0xff, size);
    struct kt_forward forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_wish)
{
    struct fixture fixture = {0};
    fixture_fill(&fixture, 2);
    fixture_load(&fixture, 1);
    struct kt_layer_params params = fixture_params(&fixture);
    params.backend = "refrence";
    struct kt_layer *layer = NULL;
    struct kt_error error;
    ck_ok(kt_layer_create(fixture.context, &params, &layer, &ck_error));
    ck_assert_int_eq(kt_layer_load(layer, fixture.experts, 5, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "did you mean reference?"));
    kt_layer_destroy(layer);
    struct kt_plan plan;
    ck_ok(kt_layer_plan(fixture.layer, fixture.experts, &plan, &ck_error));
    ck_assert_uint_eq(plan.keeps_source, 1);
    ck_assert_uint_eq(plan.fallback, 0);
    ck_assert_uint_ge(plan.n_candidates, 1);
    ck_assert_uint_eq(plan.nominal_size, 3 * fixture.hidden * fixture.intermediate * 4);
    /* What no weights can be like is said before anything divides by it. */
    for (int i = 0; i < 4; i++) {
        struct kt_expert odd = fixture.experts[0];
        struct kt_scales *scales = i % 2 ? &odd.up.zeros : &odd.down.scales;
        odd.up.data = odd.down.data = NULL;
        scales->dtype = KT_DTYPE_F32;
        scales->group_rows = i < 2;
        scales->group_cols = i >= 2;
        ck_assert_int_eq(kt_layer_plan(fixture.layer, &odd, &plan, &error), KT_E_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, "both must be at least 1"));
        scales->group_rows = scales->group_cols = 1;
        scales->dtype = 4321;
        ck_assert_int_eq(kt_layer_plan(fixture.layer, &odd, &plan, &error), KT_E_INVALID);
    }
    fixture_free(&fixture);
}
END_TEST

START_TEST(test_usage)
{
    struct fixture fixture = {.n_tokens = 20, .max_tokens = 6};
    fixture_fill(&fixture, 4);
    fixture.ids[7] = -3;
    fixture_load(&fixture, 2);
    struct kt_forward forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    uint64_t counts[5], expected[5] = {0};
    for (uint32_t s = 0; s < fixture.n_tokens * fixture.top_k; s++)
        if (fixture.ids[s] >= 0)
            expected[fixture.ids[s]] += 2;
    ck_ok(kt_layer_usage(fixture.layer, counts, 5, &ck_error));
    ck_assert_mem_eq(counts, expected, sizeof counts);
    struct kt_error error;
    ck_assert_int_eq(kt_layer_usage(fixture.layer, counts, 4, &error), KT_E_INVALID);
    kt_layer_usage_reset(fixture.layer);
    ck_ok(kt_layer_usage(fixture.layer, counts, 5, &ck_error));
    ck_assert_uint_eq(counts[0] + counts[1] + counts[2] + counts[3] + counts[4], 0);
    fixture_free(&fixture);
}
END_TEST

/* Two models with other shapes and threads, and the context gone before its layer. */
START_TEST(test_two_contexts)
{
    struct fixture one = {.hidden = 64}, two = {.n_experts = 9, .top_k = 4, .n_tokens = 33};
    fixture_fill(&one, 1);
    fixture_fill(&two, 2);
    fixture_load(&one, 3);
    fixture_load(&two, 1);
    kt_context_destroy(one.context);
    one.context = NULL;
    struct fixture *const both[] = {&one, &two, &one};
    for (int i = 0; i < 3; i++) {
        fixture_model(both[i]);
        struct kt_forward forward = fixture_forward(both[i]);
        ck_ok(kt_layer_forward(both[i]->layer, &forward, &ck_error));
        ck_assert_double_le(fixture_error(both[i]), 2e-6);
    }
    fixture_free(&one);
    fixture_free(&two);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_definition, 0, 48);
    tcase_add_loop_test(all, test_threads_give_same_bits, 0, 3);
    tcase_add_test(all, test_skipping);
    tcase_add_test(all, test_map_and_duplicates);
    tcase_add_loop_test(all, test_out_of_range, 0, 4);
    tcase_add_loop_test(all, test_nan_stays, 0, 5);
    tcase_add_loop_test(all, test_types_and_strides, 0, 4);
    tcase_add_test(all, test_conversions);
    tcase_add_test(all, test_wrong_params);
    tcase_add_test(all, test_wrong_forward);
    tcase_add_test(all, test_wrong_load);
    tcase_add_loop_test(all, test_wrong_scales, 0, 3);
    tcase_add_test(all, test_source_is_copied);
    tcase_add_test(all, test_wish);
    tcase_add_test(all, test_usage);
    tcase_add_test(all, test_two_contexts);
    tcase_add_loop_test(all, test_nodes, 0, 6);
    return run_tests("layer", all);
}
