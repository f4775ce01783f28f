/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/layer/stored_linear.h"

#include "tests/support/sandbox.h"

#include <stdlib.h>

/* sandbox_path keeps what it gives. */
const char *stored_folder, *stored_file;

void stored_make_folder(void)
{
    sandbox_open();
    sandbox_folder("store");
    stored_folder = sandbox_path("store");
    stored_file = sandbox_path("store/" FILE_NAME ".safetensors");
}

struct kt_linear *stored_make(struct kt_context *context, const char *backend, uint64_t rows, uint64_t cols,
                              enum kt_split split)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *linear;
    params.rows = rows;
    params.cols = cols;
    params.max_tokens = TOKENS;
    params.split = split;
    params.backend = backend;
    params.name = NAME;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    return linear;
}

enum kt_status stored_try(struct kt_context *context, const char *backend, const struct kt_view *view,
                          const float *bias, const char *name, struct kt_error *error)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_linear *linear = stored_make(context, backend, view->rows, view->cols, KT_SPLIT_ROWS);
    params.folder = stored_folder;
    enum kt_status status = kt_linear_store_view(linear, view, bias, name, &params, error);
    kt_linear_destroy(linear);
    return status;
}

struct kt_checkpoint *stored_open(const char *path, enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    params.io = io;
    ck_ok(kt_checkpoint_open(path, &params, &checkpoint, &ck_error));
    return checkpoint;
}

float *stored_run(const struct kt_linear *linear)
{
    struct kt_linear_info info;
    kt_linear_info(linear, &info);
    float *input = malloc(TOKENS * info.cols * sizeof *input);
    float *output = malloc((TOKENS + info.cols) * info.rows * sizeof *output);
    ck_assert(input && output);
    uint64_t state = 5;
    for (uint64_t i = 0; i < TOKENS * info.cols; i++)
        input[i] = (float)fixture_gaussian(&state);
    struct kt_linear_output to = {.linear = linear, .output = output, .output_dtype = KT_DTYPE_F32};
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = &to;
    batch.n_outputs = 1;
    batch.n_tokens = TOKENS;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    ck_ok(kt_linear_forward(&batch, &ck_error));
    ck_ok(kt_linear_weights(linear, 0, info.rows, output + TOKENS * info.rows, &ck_error));
    free(input);
    return output;
}

float *stored_run_loaded(struct kt_context *context, const char *backend, const struct kt_view *view,
                         const float *bias, enum kt_split split)
{
    struct kt_linear *linear = stored_make(context, backend, view->rows, view->cols, split);
    ck_ok(kt_linear_load(linear, view, bias, &ck_error));
    float *output = stored_run(linear);
    kt_linear_destroy(linear);
    return output;
}

float *stored_run_stored(struct kt_context *context, const char *backend, const struct kt_view *view,
                         enum kt_io io, enum kt_split split)
{
    struct kt_checkpoint *checkpoint = stored_open(stored_folder, io);
    struct kt_linear *linear = stored_make(context, backend, view->rows, view->cols, split);
    struct kt_linear_info info;
    ck_ok(kt_linear_load_checkpoint(linear, checkpoint, NAME, &ck_error));
    kt_checkpoint_close(checkpoint); /* the linear keeps it */
    kt_linear_info(linear, &info);
    ck_assert_str_eq(info.backend, backend);
    float *output = stored_run(linear);
    kt_linear_destroy(linear);
    return output;
}
