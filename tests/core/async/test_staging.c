/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers by layer shape and batch size: which one a batch gets, that addresses stay, and whose memory it is.
 */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An allocator that counts, and fails when it is told to. Its memory is odd on purpose. */
struct counter {
    int live, made, fail_at; /* the call `fail_at` fails; 0: none does */
    size_t bytes;
};

static void *count_allocate(void *data, size_t size)
{
    struct counter *counter = data;
    if ((counter->fail_at && counter->made + 1 >= counter->fail_at) || size >= UINT64_C(1) << 50)
        return NULL;
    char *memory = malloc(size + 1);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xa5, size + 1);
    counter->made++;
    counter->live++;
    counter->bytes += size;
    return memory + 1;
}

static void count_release(void *data, void *memory, size_t size)
{
    struct counter *counter = data;
    counter->live--;
    counter->bytes -= size;
    free((char *)memory - 1);
}

static struct kt_staging_params make_params(struct counter *counter)
{
    struct kt_staging_params params = KT_STAGING_PARAMS_INIT;
    params.hidden_size = 37;
    params.top_k = 3;
    params.input_dtype = KT_DTYPE_BF16;
    params.output_dtype = KT_DTYPE_F32;
    if (counter)
        params.allocator = (struct kt_allocator){count_allocate, count_release, counter};
    return params;
}

static struct kt_staging get(struct kt_context *context, const struct kt_staging_params *params, uint32_t n,
                             uint32_t position)
{
    struct kt_staging staging = {0};
    ck_ok(kt_staging_get(context, params, n, position, &staging, &ck_error));
    return staging;
}

static void expect(enum kt_status status, enum kt_status wanted, const char *words,
                   const struct kt_error *error)
{
    ck_assert_msg(status == wanted && strstr(error->message, words), "%s (%s) instead of %s, %s",
                  kt_status_name(status), error->message, kt_status_name(wanted), words);
}

/* Writes every byte that a slot says it has. */
static void fill(const struct kt_staging *staging, int value)
{
    *staging->n_tokens = value;
    memset(staging->expert_ids, value, staging->max_tokens * 3 * sizeof(int64_t));
    memset(staging->router_weights, value, staging->max_tokens * 3 * sizeof(float));
    memset(staging->input, value, staging->max_tokens * UINT64_C(37) * 2);
    memset(staging->output, value, staging->max_tokens * UINT64_C(37) * 4);
}

static void check(const struct kt_staging *staging, int value)
{
    const char *parts[] = {(char *)staging->expert_ids, (char *)staging->router_weights, staging->input,
                           staging->output};
    const size_t sizes[] = {staging->max_tokens * 3 * sizeof(int64_t),
                            staging->max_tokens * 3 * sizeof(float), staging->max_tokens * UINT64_C(37) * 2,
                            staging->max_tokens * UINT64_C(37) * 4};
    ck_assert_int_eq(*staging->n_tokens, value);
    for (int p = 0; p < 4; p++) {
        ck_assert_uint_eq((uintptr_t)parts[p] % 64, 0);
        for (size_t i = 0; i < sizes[p]; i++)
            if (parts[p][i] != (char)value)
                ck_abort_msg("part %d, byte %zu is %d instead of %d", p, i, parts[p][i], value);
    }
}

START_TEST(captured_sizes)
{
    static const uint32_t sizes[] = {8, 1, 4, 8, 1};
    struct counter counter = {0};
    struct kt_staging_params params = make_params(_i ? &counter : NULL);
    struct kt_context *context = fixture_context(1);
    struct kt_staging slot[6];
    ck_ok(kt_capture_batch_sizes(context, &params, sizes, 5, &ck_error));
    for (uint32_t i = 0; i < 6; i++) {
        slot[i] = get(context, &params, sizes[i / 2], i % 2);
        ck_assert_uint_eq(slot[i].max_tokens, sizes[i / 2]);
        check(&slot[i], 0);
        fill(&slot[i], (int)i + 1);
    }
    /* The next size that holds the batch; positions take turns; capturing again moves nothing. */
    ck_ok(kt_capture_batch_sizes(context, &params, (const uint32_t[]){2, 4}, 2, &ck_error));
    ck_assert_ptr_eq(get(context, &params, 3, 7).input, slot[5].input);
    ck_assert_ptr_eq(get(context, &params, 5, 0).input, slot[0].input);
    ck_assert_uint_eq(get(context, &params, 2, 0).max_tokens, 2);
    for (int i = 0; i < 6; i++)
        check(&slot[i], i + 1);
    struct kt_forward forward = get(context, &params, 3, 1).forward;
    ck_assert_uint_eq(forward.n_tokens, 3);
    ck_assert_uint_eq(forward.top_k, 3);
    ck_assert_uint_eq(forward.input_dtype, KT_DTYPE_BF16);
    ck_assert_uint_eq(forward.output_dtype, KT_DTYPE_F32);
    ck_assert(forward.input == slot[5].input && forward.output == slot[5].output &&
              forward.expert_ids == slot[5].expert_ids && forward.router_weights == slot[5].router_weights);
    ck_assert_int_eq(counter.made, _i ? 4 : 0);
    kt_context_destroy(context);
    ck_assert_int_eq(counter.live, 0);
    ck_assert_uint_eq(counter.bytes, 0);
}
END_TEST

/* Above all captured sizes: made once, kept, the old ones too. */
START_TEST(larger_batches)
{
    struct counter counter = {0};
    struct kt_staging_params params = make_params(&counter);
    struct kt_context *context = fixture_context(1);
    ck_ok(kt_capture_batch_sizes(context, &params, (const uint32_t[]){4}, 1, &ck_error));
    struct kt_staging large = get(context, &params, 100, 0);
    ck_assert_uint_eq(large.max_tokens, 128);
    fill(&large, 3);
    ck_assert_ptr_eq(get(context, &params, 128, 2).input, large.input);
    ck_assert_ptr_eq(get(context, &params, 5, 0).input, large.input);
    ck_assert_int_eq(counter.made, 2);
    struct kt_staging larger = get(context, &params, 129, 0);
    ck_assert_uint_eq(larger.max_tokens, 256);
    fill(&larger, 4);
    check(&large, 3);
    ck_assert_ptr_eq(get(context, &params, 100, 0).input, large.input);
    ck_assert_uint_eq(get(context, &params, 4, 0).max_tokens, 4);
    ck_assert_int_eq(counter.made, 3);
    kt_context_destroy(context);
    ck_assert_int_eq(counter.live, 0);
}
END_TEST

/* Each field that makes a shape, and the context, has buffers of its own. */
START_TEST(shapes_do_not_meet)
{
    struct counter counter = {0};
    struct kt_context *context[2] = {fixture_context(1), fixture_context(1)};
    struct kt_staging_params shape[6];
    struct kt_staging staging[12];
    for (int i = 0; i < 6; i++)
        shape[i] = make_params(&counter);
    shape[1].hidden_size = 36;
    shape[2].top_k = 2;
    shape[3].input_dtype = KT_DTYPE_F16;
    shape[4].output_dtype = KT_DTYPE_F16;
    shape[5].instance = 1;
    for (int i = 0; i < 12; i++) {
        staging[i] = get(context[i / 6], &shape[i % 6], 1, 0);
        for (int before = 0; before < i; before++)
            ck_assert_ptr_ne(staging[i].input, staging[before].input);
    }
    ck_assert_int_eq(counter.live, 12);
    *staging[1].n_tokens = 9;
    ck_ok(kt_clear_buffers(context[0], &shape[0], &ck_error));
    ck_assert_int_eq(counter.live, 11);
    ck_assert_int_eq(*staging[1].n_tokens, 9);
    ck_assert_ptr_eq(get(context[0], &shape[1], 1, 0).input, staging[1].input);
    ck_ok(kt_clear_buffers(context[0], NULL, &ck_error));
    ck_assert_int_eq(counter.live, 6);
    ck_ok(kt_clear_buffers(context[0], NULL, &ck_error));
    ck_assert_uint_eq(get(context[0], &shape[0], 1, 0).max_tokens, 1); /* to be had again */
    kt_context_destroy(context[0]);
    kt_context_destroy(context[1]);
    ck_assert_int_eq(counter.live, 0);
}
END_TEST

/* What a failure leaves: all sizes that were there, no other, no memory. */
START_TEST(failures_change_nothing)
{
    static const uint32_t sizes[] = {2, 3, 4};
    struct counter counter = {0};
    struct kt_staging_params params = make_params(&counter);
    struct kt_context *context = fixture_context(1);
    struct kt_staging staging = {.max_tokens = 77};
    struct kt_error error = {0};
    ck_ok(kt_capture_batch_sizes(context, &params, (const uint32_t[]){4}, 1, &ck_error));
    void *input = get(context, &params, 1, 0).input;
    for (counter.fail_at = 2; counter.fail_at < 4; counter.fail_at++) {
        counter.made = 1;
        expect(kt_capture_batch_sizes(context, &params, sizes, 3, &error), KT_E_NOMEM, "staging buffers",
               &error);
        ck_assert_int_eq(counter.live, 1);
        ck_assert_ptr_eq(get(context, &params, 1, 0).input, input);
    }
    counter.made = 1;
    counter.fail_at = 2;
    expect(kt_staging_get(context, &params, 5, 0, &staging, &error), KT_E_NOMEM, "8 tokens", &error);
    ck_assert_uint_eq(staging.max_tokens, 77);
    counter.fail_at = 0;
    ck_ok(kt_capture_batch_sizes(context, &params, sizes, 3, &ck_error));
    ck_assert_int_eq(counter.live, 3);
    kt_context_destroy(context);
    ck_assert_int_eq(counter.live, 0);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct counter counter = {0};
    struct kt_staging_params good = make_params(NULL), params = good;
    struct kt_context *context = fixture_context(1);
    struct kt_staging staging;
    struct kt_error error = {0};
    const uint32_t sizes[] = {1, 0, (1u << 24) + 1};
    expect(kt_capture_batch_sizes(NULL, &good, sizes, 1, &error), KT_E_INVALID, "context", &error);
    expect(kt_capture_batch_sizes(context, NULL, sizes, 1, &error), KT_E_INVALID, "params", &error);
    expect(kt_capture_batch_sizes(context, &good, NULL, 1, &error), KT_E_INVALID, "sizes", &error);
    ck_ok(kt_capture_batch_sizes(context, &good, NULL, 0, &ck_error));
    expect(kt_capture_batch_sizes(context, &good, sizes, 2, &error), KT_E_RANGE, "batch of 0 tokens", &error);
    expect(kt_capture_batch_sizes(context, &good, sizes + 2, 1, &error), KT_E_RANGE, "16777217", &error);
    expect(kt_staging_get(context, &good, 0, 0, &staging, &error), KT_E_RANGE, "batch of 0 tokens", &error);
    expect(kt_staging_get(context, &good, UINT32_MAX, 0, &staging, &error), KT_E_RANGE, "4294967295", &error);
    expect(kt_staging_get(context, &good, 1, 0, NULL, &error), KT_E_INVALID, "staging must not", &error);
    expect(kt_clear_buffers(NULL, NULL, &error), KT_E_INVALID, "context", &error);
    params.struct_size = 8;
    expect(kt_staging_get(context, &params, 1, 0, &staging, &error), KT_E_INVALID, "struct_size 8", &error);
    expect(kt_clear_buffers(context, &params, &error), KT_E_INVALID, "struct_size 8", &error);
    params = good;
    params.hidden_size = UINT64_MAX;
    expect(kt_staging_get(context, &params, 1, 0, &staging, &error), KT_E_INVALID, "hidden_size", &error);
    params = good;
    params.top_k = 0;
    expect(kt_staging_get(context, &params, 1, 0, &staging, &error), KT_E_INVALID, "top_k 0", &error);
    params = good;
    params.output_dtype = KT_DTYPE_Q4_K;
    expect(kt_staging_get(context, &params, 1, 0, &staging, &error), KT_E_INVALID, "output in q4_k", &error);
    params = good;
    params.allocator.allocate = count_allocate;
    expect(kt_staging_get(context, &params, 1, 0, &staging, &error), KT_E_INVALID, "both", &error);
    /* The largest of all: more than an address space has. */
    params = make_params(&counter);
    params.hidden_size = params.top_k = 1 << 24;
    params.input_dtype = KT_DTYPE_F32;
    expect(kt_staging_get(context, &params, 1 << 24, 0, &staging, &error), KT_E_NOMEM, "16777216 tokens",
           &error);
    kt_context_destroy(context);
}
END_TEST

/* Clearing waits for what was submitted with the buffers. */
START_TEST(clearing_waits)
{
    struct fixture fixture = {.n_tokens = 60};
    struct counter counter = {0};
    fixture_fill(&fixture, 3);
    fixture_load(&fixture, 2);
    for (int i = 0; i < 20; i++) {
        struct kt_staging_params params = make_params(&counter);
        uint64_t ticket;
        params.top_k = fixture.top_k;
        params.input_dtype = KT_DTYPE_F32;
        struct kt_staging staging = get(fixture.context, &params, fixture.n_tokens, 0);
        memcpy(staging.expert_ids, fixture.ids, fixture.n_tokens * fixture.top_k * sizeof(int64_t));
        memcpy(staging.input, fixture.input, fixture.n_tokens * fixture.hidden * sizeof(float));
        ck_ok(kt_layer_submit(fixture.layer, &staging.forward, &ticket, &ck_error));
        ck_ok(kt_clear_buffers(fixture.context, NULL, &ck_error)); /* a sanitizer sees it if it does not */
        ck_assert_int_eq(counter.live, 0);
        ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    }
    fixture_free(&fixture);
}
END_TEST

struct asker {
    struct kt_context *context;
    void *input[64];
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    struct kt_staging_params params = make_params(NULL);
    for (uint32_t i = 0; i < 64; i++) {
        struct kt_staging staging;
        if (i % 8 == 0)
            (void)kt_capture_batch_sizes(asker->context, &params, &(uint32_t){i + 1}, 1, NULL);
        asker->input[i] = kt_staging_get(asker->context, &params, 64 - i, i, &staging, NULL) == KT_OK
                              ? staging.input
                              : NULL;
        if (asker->input[i])
            (void)__atomic_add_fetch(staging.n_tokens, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Threads that ask at the same time get the same buffers. */
START_TEST(many_threads)
{
    struct kt_context *context = fixture_context(1);
    struct kt_staging_params params = make_params(NULL);
    struct asker asker[4];
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) {
        asker[i].context = context;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, ask, &asker[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_ptr_eq(asker[i].input[0], get(context, &params, 64, 0).input);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("staging");
    tcase_add_loop_test(tests, captured_sizes, 0, 2);
    tcase_add_test(tests, larger_batches);
    tcase_add_test(tests, shapes_do_not_meet);
    tcase_add_test(tests, failures_change_nothing);
    tcase_add_test(tests, wrong_arguments);
    tcase_add_test(tests, clearing_waits);
    tcase_add_test(tests, many_threads);
    return run_tests("staging", tests);
}
