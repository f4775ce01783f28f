/* SPDX-License-Identifier: Apache-2.0 */
/* test_recorder.c - what a recorder keeps, drops and writes, also while forwards go on. */
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include "core/weights/table/checkpoint.h"
#include "core/weights/table/parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct kt_error error;
static char folder[32], path[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/kt-test-recorder.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/trace.safetensors", folder);
}

static void remove_folder(void)
{
    (void)unlink(path);
    ck_assert_msg(rmdir(folder) == 0, "a file is left in %s", folder);
}

static struct kt_recorder *make_recorder(const struct fixture *fixture, uint64_t size, uint32_t hidden)
{
    struct kt_recorder_params params = KT_RECORDER_PARAMS_INIT;
    struct kt_recorder *recorder = NULL;
    params.size = size;
    params.hidden_states = hidden;
    ck_ok(kt_recorder_create(fixture->context, &params, &recorder, &ck_error));
    return recorder;
}

/* The forward of tokens begin .. end of the fixture's batch. */
static struct kt_forward part_of(const struct fixture *fixture, uint32_t begin, uint32_t end)
{
    struct kt_forward forward = fixture_forward(fixture);
    forward.n_tokens = end - begin;
    forward.expert_ids = fixture->ids + (size_t)begin * fixture->top_k;
    forward.router_weights = fixture->router + (size_t)begin * fixture->top_k;
    forward.input = fixture->input + begin * fixture->hidden;
    forward.output = fixture->output + begin * fixture->hidden;
    return forward;
}

/* A tensor of the file, whose shape must be this; cols 0: one dimension. */
static const void *read_tensor(struct kt_checkpoint *file, const char *name, uint32_t dtype, uint64_t rows,
                               uint64_t cols)
{
    struct kt_tensor_info info;
    const void *data;
    uint64_t index;
    ck_ok(kt_checkpoint_find(file, name, &index, &ck_error));
    ck_ok(kt_checkpoint_tensor(file, index, &info, &ck_error));
    ck_assert_uint_eq(info.dtype, dtype);
    ck_assert_uint_eq(info.n_dims, cols ? 2 : 1);
    ck_assert_uint_eq(info.dims[0], rows);
    if (cols)
        ck_assert_uint_eq(info.dims[1], cols);
    ck_ok(kt_checkpoint_data(file, index, &data, &ck_error));
    return data;
}

static struct kt_checkpoint *open_trace(void)
{
    struct kt_checkpoint *file = NULL;
    ck_ok(kt_checkpoint_open(path, NULL, &file, &ck_error));
    ck_assert_str_eq(kt_checkpoint_metadata(file, 0, "format"), "kt-trace");
    return file;
}

/* Two layers in turns, batches of 1, 4 and 6 tokens, strided input, chunks, one way submitted. */
START_TEST(batches_come_back)
{
    struct fixture fixture = {.n_tokens = 11, .max_tokens = 3};
    const uint32_t ends[4] = {0, 1, 5, 11};
    fixture_fill(&fixture, 5);
    fixture.ids[3] = -1;
    fixture_load(&fixture, 2);
    uint64_t hidden = fixture.hidden, pitch = hidden + 3;
    float *wide = calloc(11 * pitch, sizeof *wide);
    for (uint32_t t = 0; t < 11; t++)
        memcpy(wide + t * pitch, fixture.input + t * hidden, hidden * sizeof *wide);
    struct kt_layer_params params = fixture_params(&fixture);
    struct kt_layer *other;
    ck_ok(kt_layer_create(fixture.context, &params, &other, &ck_error));
    ck_ok(kt_layer_load(other, fixture.experts, fixture.n_experts, &ck_error));
    struct kt_recorder *recorder = make_recorder(&fixture, 1 << 20, 1);
    ck_assert_int_eq(kt_recorder_save(recorder, path, &error), KT_E_STATE);
    ck_ok(kt_layer_record(fixture.layer, recorder, 30, &ck_error));
    ck_ok(kt_layer_record(other, recorder, 4, &ck_error));
    for (int b = 0; b < 3; b++) {
        struct kt_forward forward = part_of(&fixture, ends[b], ends[b + 1]);
        uint64_t ticket;
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
        forward.input = wide + ends[b] * pitch;
        forward.input_stride = (int64_t)(pitch * sizeof *wide);
        ck_ok(kt_layer_submit(other, &forward, &ticket, &ck_error));
        ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    }
    ck_ok(kt_layer_record(other, NULL, 0, &ck_error));
    struct kt_forward again = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(other, &again, &ck_error)); /* not recorded any more */
    struct kt_recorder_info info;
    kt_recorder_info(recorder, &info);
    ck_assert_uint_eq(info.n_batches, 6);
    ck_assert_uint_eq(info.n_tokens, 22);
    ck_assert_uint_eq(info.n_dropped_batches, 0);
    ck_ok(kt_recorder_save(recorder, path, &ck_error));
    kt_recorder_info(recorder, &info);
    ck_assert_uint_eq(info.used, 0);
    struct kt_checkpoint *file = open_trace();
    uint64_t slots = 11 * fixture.top_k;
    for (int l = 0; l < 2; l++) {
        const char *names[2][5] = {{"layers.4.topk_ids", "layers.4.topk_weights", "layers.4.hidden_states",
                                    "layers.4.batch_tokens", "layers.4.batch_numbers"},
                                   {"layers.30.topk_ids", "layers.30.topk_weights", "layers.30.hidden_states",
                                    "layers.30.batch_tokens", "layers.30.batch_numbers"}};
        ck_assert_mem_eq(read_tensor(file, names[l][0], KT_DTYPE_I64, 11, fixture.top_k), fixture.ids,
                         slots * 8);
        ck_assert_mem_eq(read_tensor(file, names[l][1], KT_DTYPE_F32, 11, fixture.top_k), fixture.router,
                         slots * 4);
        ck_assert_mem_eq(read_tensor(file, names[l][2], KT_DTYPE_F32, 11, hidden), fixture.input,
                         11 * hidden * 4);
        const int64_t sizes[3] = {1, 4, 6}, numbers[3] = {0, 1, 2};
        ck_assert_mem_eq(read_tensor(file, names[l][3], KT_DTYPE_I64, 3, 0), sizes, sizeof sizes);
        ck_assert_mem_eq(read_tensor(file, names[l][4], KT_DTYPE_I64, 3, 0), numbers, sizeof numbers);
    }
    kt_checkpoint_close(file);
    kt_recorder_destroy(recorder); /* the layer keeps it */
    ck_ok(kt_layer_forward(fixture.layer, &again, &ck_error));
    kt_layer_destroy(other);
    free(wide);
    fixture_free(&fixture);
}
END_TEST

/* Batches of fewer experts a token and of several dtypes become one tensor. */
START_TEST(batches_of_many_kinds)
{
    struct fixture fixture = {.n_tokens = 2, .top_k = 3};
    uint16_t halves[2][64];
    fixture_fill(&fixture, 6);
    fixture_load(&fixture, 1);
    for (uint32_t t = 0; t < 2; t++)
        for (uint64_t i = 0; i < fixture.hidden; i++)
            halves[t][i] = (uint16_t)(0x3f80 + t * 64 + i); /* bf16: 1 to 2 */
    struct kt_recorder *recorder = make_recorder(&fixture, 1 << 20, 1);
    ck_ok(kt_layer_record(fixture.layer, recorder, 0, &ck_error));
    struct kt_forward forward = fixture_forward(&fixture);
    forward.top_k = 1;
    forward.input = halves;
    forward.input_dtype = KT_DTYPE_BF16;
    forward.input_stride = sizeof halves[0];
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    forward = fixture_forward(&fixture);
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    ck_ok(kt_recorder_save(recorder, path, &ck_error));
    struct kt_checkpoint *file = open_trace();
    const int64_t *ids = read_tensor(file, "layers.0.topk_ids", KT_DTYPE_I64, 4, 3);
    const float *weights = read_tensor(file, "layers.0.topk_weights", KT_DTYPE_F32, 4, 3);
    const float *hidden = read_tensor(file, "layers.0.hidden_states", KT_DTYPE_F32, 4, fixture.hidden);
    for (int t = 0; t < 2; t++) {
        ck_assert(ids[3 * t] == fixture.ids[t] && ids[3 * t + 1] == -1 && ids[3 * t + 2] == -1);
        ck_assert(weights[3 * t] == fixture.router[t] && weights[3 * t + 1] == 0 && weights[3 * t + 2] == 0);
        for (uint64_t i = 0; i < fixture.hidden; i++)
            ck_assert(hidden[(uint64_t)t * fixture.hidden + i] == 1 + (float)((uint64_t)t * 64 + i) / 128);
    }
    ck_assert_mem_eq(ids + 6, fixture.ids, 6 * 8);
    ck_assert_mem_eq(weights + 6, fixture.router, 6 * 4);
    ck_assert_mem_eq(hidden + 2 * fixture.hidden, fixture.input, 2 * fixture.hidden * 4);
    kt_checkpoint_close(file);
    kt_recorder_destroy(recorder);
    fixture_free(&fixture);
}
END_TEST

/* With deferred experts, what the engine asked for, once. */
START_TEST(deferred_batches)
{
    const uint8_t mask[5] = {1, 0, 0, 0, 0};
    struct fixture fixture = {.n_tokens = 7, .mask = mask};
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral;
    fixture_fill(&fixture, 8);
    fixture_load(&fixture, 2);
    params.n_layers = 2;
    params.n_experts = 5;
    params.top_k = fixture.top_k;
    params.max_tokens = 7;
    params.hidden_size = fixture.hidden;
    params.max_deferred = fixture.top_k;
    ck_ok(kt_deferral_create(fixture.context, &params, &deferral, &ck_error));
    struct kt_recorder *recorder = make_recorder(&fixture, 1 << 20, 0);
    ck_ok(kt_layer_record(fixture.layer, recorder, 0, &ck_error));
    struct kt_forward forward = fixture_forward(&fixture);
    for (uint32_t position = 0; position < 2; position++) {
        uint64_t ticket;
        ck_ok(kt_deferral_submit(deferral, position, fixture.layer, &forward, &ticket, &ck_error));
        ck_ok(kt_wait(fixture.context, ticket, &ck_error));
    }
    kt_deferral_destroy(deferral);
    ck_ok(kt_recorder_save(recorder, path, &ck_error));
    struct kt_checkpoint *file = open_trace();
    const int64_t *ids = read_tensor(file, "layers.0.topk_ids", KT_DTYPE_I64, 14, fixture.top_k);
    ck_assert_mem_eq(ids, fixture.ids, 7 * fixture.top_k * 8);
    ck_assert_mem_eq(ids + 7 * fixture.top_k, fixture.ids, 7 * fixture.top_k * 8);
    uint64_t index;
    ck_assert_int_eq(kt_checkpoint_find(file, "layers.0.hidden_states", &index, &error), KT_E_NOT_FOUND);
    kt_checkpoint_close(file);
    kt_recorder_destroy(recorder);
    fixture_free(&fixture);
}
END_TEST

/* ---- a buffer that is small ---- */

struct sink {
    const struct fixture *fixture;
    uint64_t n, last; /* batches, number of the last one */
    uint64_t refuse;  /* the batch of this number; UINT64_MAX: none */
    int wrong;
};

static int take(void *data, const struct kt_recorded *batch)
{
    struct sink *sink = data;
    if (batch->batch == sink->refuse)
        return 1;
    sink->wrong |=
        batch->layer != 9 || batch->top_k != sink->fixture->top_k ||
        (sink->n > 0 && batch->batch <= sink->last) || batch->n_tokens != batch->batch % 5 + 1 ||
        memcmp(batch->expert_ids, sink->fixture->ids, batch->n_tokens * batch->top_k * 8) != 0 ||
        memcmp(batch->router_weights, sink->fixture->router, batch->n_tokens * batch->top_k * 4) != 0 ||
        memcmp(batch->hidden_states, sink->fixture->input, batch->n_tokens * batch->hidden_size * 4) != 0;
    sink->last = batch->batch;
    sink->n++;
    return 0;
}

static void serve(const struct fixture *fixture, uint64_t number)
{
    struct kt_forward forward = part_of(fixture, 0, (uint32_t)(number % 5 + 1));
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
}

/* A full buffer drops and counts; when it has room again, it goes on around its end. */
START_TEST(full_buffer)
{
    struct fixture fixture = {.n_tokens = 5};
    fixture_fill(&fixture, 2);
    fixture_load(&fixture, 1);
    struct kt_recorder *recorder = make_recorder(&fixture, 4097, 1);
    struct sink sink = {.fixture = &fixture, .refuse = UINT64_MAX};
    struct kt_recorder_info info;
    ck_ok(kt_layer_record(fixture.layer, recorder, 9, &ck_error));
    uint64_t dropped = 0;
    for (uint64_t b = 0; b < 200; b++) {
        serve(&fixture, b);
        kt_recorder_info(recorder, &info);
        ck_assert_uint_le(info.used, info.size);
        ck_assert_uint_eq(info.n_batches + info.n_dropped_batches, b + 1);
        ck_assert_uint_eq(info.n_tokens + info.n_dropped_tokens, b / 5 * 15 + (b % 5 + 1) * (b % 5 + 2) / 2);
        if (b % 7 == 0)
            ck_ok(kt_recorder_drain(recorder, take, &sink, &ck_error));
        dropped = info.n_dropped_batches;
    }
    ck_assert_uint_gt(dropped, 10);
    ck_ok(kt_recorder_drain(recorder, take, &sink, &ck_error));
    ck_assert_int_eq(sink.wrong, 0);
    ck_assert_uint_eq(sink.n, 200 - dropped);
    /* A sink that refuses gets the batch again. */
    serve(&fixture, 200);
    serve(&fixture, 201);
    sink.refuse = 201;
    ck_assert_int_eq(kt_recorder_drain(recorder, take, &sink, &error), KT_E_IO);
    ck_assert_msg(strstr(error.message, "batch 201 of layer 9") != NULL, "%s", error.message);
    sink.refuse = UINT64_MAX;
    ck_ok(kt_recorder_drain(recorder, take, &sink, &ck_error));
    ck_assert_int_eq(sink.wrong, 0);
    ck_assert_uint_eq(sink.last, 201);
    /* A file that cannot be written costs nothing. */
    serve(&fixture, 202);
    ck_assert_int_eq(kt_recorder_save(recorder, "/nowhere/at/all", &error), KT_E_IO);
    ck_ok(kt_recorder_save(recorder, path, &ck_error));
    struct kt_checkpoint *file = open_trace();
    ck_assert_int_eq(*(const int64_t *)read_tensor(file, "layers.9.batch_numbers", KT_DTYPE_I64, 1, 0), 202);
    ck_assert_int_eq(atol(kt_checkpoint_metadata(file, 0, "dropped_batches")), (long)dropped);
    kt_checkpoint_close(file);
    /* Larger than the buffer: never recorded, always computed. */
    struct kt_forward forward = fixture_forward(&fixture);
    struct kt_recorder *tiny = make_recorder(&fixture, 4096, 1);
    ck_ok(kt_layer_record(fixture.layer, tiny, 9, &ck_error));
    forward.n_tokens = 5;
    for (int i = 0; i < 9; i++)
        ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    kt_recorder_info(tiny, &info);
    ck_assert_uint_gt(info.n_dropped_batches, 0);
    fixture_model(&fixture);
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    kt_recorder_destroy(tiny);
    kt_recorder_destroy(recorder);
    fixture_free(&fixture);
}
END_TEST

static struct kt_recorder *shared;
static atomic_bool stop;

static void *empty(void *data)
{
    while (!atomic_load(&stop))
        (void)kt_recorder_drain(shared, take, data, NULL);
    return NULL;
}

/* Drained by another thread all the time. */
START_TEST(drained_while_it_serves)
{
    struct fixture fixture = {.n_tokens = 5};
    pthread_t thread;
    fixture_fill(&fixture, 2);
    fixture_load(&fixture, 1);
    shared = make_recorder(&fixture, 8192, 1);
    struct sink sink = {.fixture = &fixture, .refuse = UINT64_MAX};
    struct kt_recorder_info info;
    ck_ok(kt_layer_record(fixture.layer, shared, 9, &ck_error));
    ck_assert_int_eq(pthread_create(&thread, NULL, empty, &sink), 0);
    for (uint64_t b = 0; b < 3000; b++)
        serve(&fixture, b);
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_ok(kt_recorder_drain(shared, take, &sink, &ck_error));
    kt_recorder_info(shared, &info);
    ck_assert_int_eq(sink.wrong, 0);
    ck_assert_uint_eq(sink.n, info.n_batches);
    ck_assert_uint_eq(info.n_batches + info.n_dropped_batches, 3000);
    kt_recorder_destroy(shared);
    fixture_free(&fixture);
}
END_TEST

START_TEST(refusals)
{
    struct fixture fixture = {.n_tokens = 1}, other = {.hidden = 11};
    struct kt_recorder_params params = KT_RECORDER_PARAMS_INIT;
    struct kt_recorder *recorder = NULL;
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 1);
    fixture_fill(&other, 1);
    fixture_load(&other, 1);
    ck_assert_int_eq(kt_recorder_create(fixture.context, &params, &recorder, &error), KT_E_INVALID);
    params.size = UINT64_MAX;
    ck_assert_int_eq(kt_recorder_create(fixture.context, &params, &recorder, &error), KT_E_INVALID);
    params.size = UINT64_C(1) << 46;
    ck_assert_int_eq(kt_recorder_create(NULL, &params, &recorder, &error), KT_E_INVALID);
    params.struct_size = 8;
    ck_assert_int_eq(kt_recorder_create(fixture.context, &params, &recorder, &error), KT_E_INVALID);
    ck_assert_ptr_null(recorder);
    recorder = make_recorder(&fixture, 4096, 0);
    ck_assert_int_eq(kt_layer_record(other.layer, recorder, 0, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "another context"));
    ck_ok(kt_layer_record(fixture.layer, recorder, 0, &ck_error));
    struct kt_layer_params layer_params = fixture_params(&fixture);
    struct kt_layer *wide;
    layer_params.hidden_size++;
    ck_ok(kt_layer_create(fixture.context, &layer_params, &wide, &ck_error));
    ck_assert_int_eq(kt_layer_record(wide, recorder, 0, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "layer 0 is recorded with hidden size"));
    ck_ok(kt_layer_record(wide, recorder, 1, &ck_error));
    ck_assert_int_eq(kt_layer_record(NULL, recorder, 0, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_record(wide, recorder, UINT64_MAX, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_recorder_drain(recorder, NULL, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_recorder_drain(NULL, take, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_recorder_save(NULL, path, &error), KT_E_INVALID);
    kt_layer_destroy(wide);
    kt_recorder_destroy(recorder);
    kt_recorder_destroy(NULL);
    fixture_free(&other);
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, make_folder, remove_folder);
    tcase_add_test(all, batches_come_back);
    tcase_add_test(all, batches_of_many_kinds);
    tcase_add_test(all, deferred_batches);
    tcase_add_test(all, full_buffer);
    tcase_add_test(all, drained_while_it_serves);
    tcase_add_test(all, refusals);
    return run_tests("recorder", all);
}
