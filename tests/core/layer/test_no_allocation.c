/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine calls for each layer allocates nothing, from the first call on, whatever the backend, the
 * number of threads and the batch: neither the library, nor the plugin, nor what they call. */
#include "tests/support/count_allocations.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 5, TOP_K = 3, HIDDEN = 256, INTERMEDIATE = 192, MAX_TOKENS = 16, LARGEST = 40 };

/* Weights of random bytes, but for those of each block that say how large its numbers are. */
struct source {
    const char *backend;
    uint32_t dtype, elements, bytes; /* of a block */
    uint32_t at;                     /* the byte with the exponent */
    uint8_t exponent;
    bool scaled; /* by a bfloat16 for 32 columns */
    bool unpacks;
};

static const struct source sources[] = {
    {"reference", KT_DTYPE_F32, 1, 4, 3, 0x3d, false, false},
    {"llamafile", KT_DTYPE_Q8_0, 32, 34, 1, 0x10, false, false},
    {"llamafile", KT_DTYPE_BF16, 1, 2, 1, 0x3d, false, false},
    {"bf16", KT_DTYPE_BF16, 1, 2, 1, 0x3d, false, true},
    {"rawint4", KT_DTYPE_INT4, 8, 4, 0, 0x77, true, true},
    {"amx_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, false, false},
    {"amx_int4", KT_DTYPE_BF16, 1, 2, 1, 0x3d, false, false},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, 0, 0x33, true, true},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static struct kt_view make_view(const struct source *source, uint64_t rows, uint64_t cols)
{
    struct kt_view view = KT_VIEW_INIT;
    uint64_t blocks = rows * cols / source->elements, groups = rows * cols / 32, state = rows;
    uint8_t *data = malloc(blocks * source->bytes), *scales = source->scaled ? malloc(groups * 2) : NULL;
    for (uint64_t i = 0; i < blocks * source->bytes; i++)
        data[i] =
            i % source->bytes == source->at ? source->exponent : (uint8_t)(fixture_uniform(&state) * 256);
    view.dtype = source->dtype;
    view.rows = rows;
    view.cols = cols;
    view.data = data;
    view.size = blocks * source->bytes;
    view.row_stride = (int64_t)(cols / source->elements * source->bytes);
    view.block_stride = (int64_t)source->bytes;
    for (uint64_t i = 0; scales && i < groups * 2; i++)
        scales[i] = i % 2 ? 0x3c : 0;
    if (scales)
        view.scales = (struct kt_scales){.data = scales,
                                         .size = groups * 2,
                                         .dtype = KT_DTYPE_BF16,
                                         .group_rows = 1,
                                         .group_cols = 32,
                                         .row_stride = (int64_t)(cols / 32 * 2),
                                         .col_stride = 2};
    return view;
}

static void free_view(const struct kt_view *view)
{
    free((void *)(uintptr_t)view->data);
    free((void *)(uintptr_t)view->scales.data);
}

/* All that is called, made beforehand. */
struct place {
    const struct source *source;
    struct kt_context *context;
    struct kt_layer *layer;
    struct kt_linear *linear[2];
    void *output[2];
    struct kt_deferral *deferral;
    struct kt_host_call *call[2]; /* the second one with deferral */
    struct kt_staging staging;
    struct kt_staging_params staging_params;
    struct kt_unpack_buffers rank[2];
    uint8_t mask[EXPERTS];
};

static struct kt_context *make_context(const struct source *source, int threads)
{
    char count[64], module[4096];
    bool plugin = strcmp(source->backend, "reference") != 0;
    (void)snprintf(count, sizeof count, "core.threads=%d", threads);
    if (plugin)
        (void)snprintf(module, sizeof module, "plugin.%s.module=%s", source->backend,
                       sandbox_backend(source->backend));
    return fixture_context_with((const char *const[]){count, "core.strict=yes", "core.spin_us=50", module},
                                plugin ? 4 : 3);
}

static void make_layer(struct place *place)
{
    struct kt_expert expert = {.gate_bias = NULL}, experts[EXPERTS];
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    expert.gate = make_view(place->source, INTERMEDIATE, HIDDEN);
    expert.up = make_view(place->source, INTERMEDIATE, HIDDEN);
    expert.down = make_view(place->source, HIDDEN, INTERMEDIATE);
    for (int e = 0; e < EXPERTS; e++)
        experts[e] = expert;
    params.n_experts = EXPERTS;
    params.top_k = TOP_K;
    params.hidden_size = HIDDEN;
    params.intermediate_size = INTERMEDIATE;
    params.max_tokens = MAX_TOKENS;
    params.backend = place->source->backend;
    params.skip_mask = place->mask;
    ck_ok(kt_layer_create(place->context, &params, &place->layer, &ck_error));
    ck_ok(kt_layer_load(place->layer, experts, EXPERTS, &ck_error));
    free_view(&expert.gate);
    free_view(&expert.up);
    free_view(&expert.down);
}

static void make_linears(struct place *place)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    const float bias[INTERMEDIATE] = {1, 2, 3};
    struct kt_view view = make_view(place->source, INTERMEDIATE, HIDDEN);
    params.rows = INTERMEDIATE;
    params.cols = HIDDEN;
    params.max_tokens = MAX_TOKENS;
    params.backend = place->source->backend;
    for (int l = 0; l < 2; l++) {
        ck_ok(kt_linear_create(place->context, &params, &place->linear[l], &ck_error));
        ck_ok(kt_linear_load(place->linear[l], &view, l ? bias : NULL, &ck_error));
        place->output[l] = calloc((size_t)LARGEST * INTERMEDIATE, sizeof(float));
    }
    free_view(&view);
}

static void make_calls(struct place *place)
{
    struct kt_deferral_params deferral = KT_DEFERRAL_PARAMS_INIT;
    struct kt_host_params host = KT_HOST_PARAMS_INIT;
    deferral.n_layers = 2;
    deferral.n_experts = EXPERTS;
    deferral.top_k = TOP_K;
    deferral.max_tokens = LARGEST;
    deferral.hidden_size = HIDDEN;
    deferral.max_deferred = 2;
    ck_ok(kt_deferral_create(place->context, &deferral, &place->deferral, &ck_error));
    host.layer = place->layer;
    host.max_tokens = LARGEST;
    host.n_tokens = place->staging.n_tokens;
    host.forward = place->staging.forward;
    ck_ok(kt_host_call_create(&host, &place->call[0], &ck_error));
    host.deferral = place->deferral;
    ck_ok(kt_host_call_create(&host, &place->call[1], &ck_error));
}

static void make_ranks(struct place *place)
{
    struct kt_unpack_info info;
    if (!place->source->unpacks)
        return;
    ck_ok(kt_layer_unpack_info(place->layer, 2, &info, &ck_error));
    for (int r = 0; r < 2; r++)
        place->rank[r] = (struct kt_unpack_buffers){.w13 = malloc(info.w13.size),
                                                    .w13_scales = malloc(info.w13.scale_size),
                                                    .w2 = malloc(info.w2.size),
                                                    .w2_scales = malloc(info.w2.scale_size)};
}

/* Each thread of a context gives itself a name. Until then a sanitizer's runtime may be starting it, and that
 * allocates. */
static bool threads_started(void)
{
    int nameless = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[32] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = *task->d_name == '.' ? NULL : fopen(path, "r");
        if (!file)
            continue;
        nameless += !fgets(name, sizeof name, file) || strncmp(name, "kt-", 3) != 0;
        (void)fclose(file);
    }
    (void)closedir(tasks);
    return nameless == 1; /* the one that asks */
}

static void open_place(struct place *place, const struct source *source, int threads)
{
    uint64_t state = 5;
    *place = (struct place){.source = source, .context = make_context(source, threads)};
    make_layer(place);
    make_linears(place);
    place->staging_params = (struct kt_staging_params)KT_STAGING_PARAMS_INIT;
    place->staging_params.hidden_size = HIDDEN;
    place->staging_params.top_k = TOP_K;
    place->staging_params.input_dtype = place->staging_params.output_dtype = KT_DTYPE_BF16;
    const uint32_t largest = LARGEST;
    ck_ok(kt_capture_batch_sizes(place->context, &place->staging_params, &largest, 1, &ck_error));
    ck_ok(kt_staging_get(place->context, &place->staging_params, LARGEST, 0, &place->staging, &ck_error));
    for (int i = 0; i < LARGEST * HIDDEN; i++)
        ((uint16_t *)place->staging.input)[i] = (uint16_t)(0x3c00 + (int)(fixture_uniform(&state) * 512));
    for (int i = 0; i < LARGEST * TOP_K; i++) {
        place->staging.expert_ids[i] = (i / TOP_K + i % TOP_K) % EXPERTS;
        place->staging.router_weights[i] = 0.5f;
    }
    make_calls(place);
    make_ranks(place);
    while (!threads_started())
        (void)sched_yield();
}

static void close_place(struct place *place)
{
    kt_host_call_destroy(place->call[0]);
    kt_host_call_destroy(place->call[1]);
    kt_deferral_destroy(place->deferral);
    kt_layer_destroy(place->layer);
    for (int l = 0; l < 2; l++) {
        kt_linear_destroy(place->linear[l]);
        free(place->output[l]);
    }
    kt_context_destroy(place->context);
    for (int r = 0; r < 2; r++) {
        free(place->rank[r].w13);
        free(place->rank[r].w13_scales);
        free(place->rank[r].w2);
        free(place->rank[r].w2_scales);
    }
}

/* Both linears over the inputs of a forward: outputs as the backend has them, then in another form. */
static int call_linears(struct place *place, const struct kt_forward *forward)
{
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    struct kt_linear_output to[2];
    struct kt_error error;
    for (int l = 0; l < 2; l++)
        to[l] = (struct kt_linear_output){.linear = place->linear[l],
                                          .output = place->output[l],
                                          .output_dtype = l ? KT_DTYPE_BF16 : KT_DTYPE_F32,
                                          .accumulate = (uint32_t)l};
    batch.outputs = to;
    batch.n_outputs = 2;
    batch.n_tokens = forward->n_tokens;
    batch.input = forward->input;
    batch.input_dtype = forward->input_dtype;
    int failed = kt_linear_forward(&batch, &error) != KT_OK;
    batch.n_outputs = 9;
    return failed + (kt_linear_forward(&batch, &error) != KT_E_INVALID);
}

/* Calls everything once with a batch; gives what failed. libcheck's assertions allocate: none here. */
static int call_all(struct place *place, uint32_t n_tokens)
{
    struct kt_staging again;
    struct kt_error error;
    uint64_t ticket = 0;
    int failed = kt_staging_get(place->context, &place->staging_params, n_tokens, 0, &again, &error) != KT_OK;
    struct kt_forward forward = again.forward;
    place->mask[n_tokens % EXPERTS] ^= 1;
    *again.n_tokens = (int32_t)n_tokens;
    failed += kt_layer_forward(place->layer, &forward, &error) != KT_OK;
    failed += call_linears(place, &forward);
    failed += kt_layer_submit(place->layer, &forward, &ticket, &error) != KT_OK;
    failed += kt_wait(place->context, ticket, &error) != KT_OK;
    for (uint32_t position = 0; position < 2; position++) {
        failed +=
            kt_deferral_submit(place->deferral, position, place->layer, &forward, &ticket, &error) != KT_OK;
        failed += kt_wait(place->context, ticket, &error) != KT_OK;
    }
    for (int c = 0; c < 2; c++) {
        kt_host_submit(place->call[c]);
        kt_host_wait(place->call[c]);
        failed += kt_host_call_status(place->call[c], &error) != KT_OK;
    }
    if (place->source->unpacks) {
        failed += kt_layer_unpack(place->layer, 1, 2, place->rank, &error) != KT_OK;
        failed += kt_layer_submit_unpack(place->layer, 2, 2, place->rank, &ticket, &error) != KT_OK;
        failed += kt_wait(place->context, ticket, &error) != KT_OK;
    }
    /* Nor does a failure. */
    int64_t id = again.expert_ids[0];
    again.expert_ids[0] = EXPERTS;
    failed += kt_layer_forward(place->layer, &forward, &error) != KT_E_RANGE;
    kt_host_submit(place->call[0]);
    kt_host_wait(place->call[0]);
    failed += kt_host_call_status(place->call[0], &error) != KT_E_RANGE;
    again.expert_ids[0] = id;
    return failed;
}

START_TEST(nothing_is_allocated)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 40};
    const struct source *source = &sources[_i];
    if (strcmp(source->backend, "reference") != 0 && !sandbox_backend(source->backend))
        return;
    for (int threads = 1; threads <= 2; threads++) {
        struct place place;
        open_place(&place, source, threads);
        unsigned long before = count_allocations();
        int failed = 0;
        for (int i = 0; i < 16; i++)
            failed += call_all(&place, sizes[i % 8]);
        unsigned long made = count_allocations() - before;
        ck_assert_int_eq(failed, 0);
        ck_assert_msg(made == 0, "%s, %d threads: %lu allocations", source->backend, threads, made);
        close_place(&place);
    }
}
END_TEST

/* The counter sees what the library and a plugin allocate when a layer is loaded. */
START_TEST(the_counter_counts)
{
    struct place place = {.source = &sources[_i]};
    if (_i > 0 && !sandbox_backend(place.source->backend))
        return;
    place.context = make_context(place.source, 1);
    unsigned long before = count_allocations();
    void *volatile memory = malloc(1);
    ck_assert_uint_ge(count_allocations(), before + 1);
    free(memory);
    before = count_allocations();
    make_layer(&place);
    ck_assert_uint_ge(count_allocations(), before + 2);
    close_place(&place);
}
END_TEST

int main(void)
{
    count_allocations_start();
    TCase *tests = tcase_create("no_allocation");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, the_counter_counts, 0, SOURCES);
    tcase_add_loop_test(tests, nothing_is_allocated, 0, SOURCES);
    return run_tests("no_allocation", tests);
}
