/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - reads recorded input of MoE layers from a safetensors file. */
#include "tools/kt/forward/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *name_tensor(char *name, size_t size, uint64_t layer, const char *what)
{
    snprintf(name, size, "layers.%" PRIu64 ".%s", layer, what);
    return name;
}

bool kt_trace_has(const struct kt_checkpoint *file, uint64_t layer, const char *what)
{
    char name[64];
    uint64_t index;
    name_tensor(name, sizeof(name), layer, what);
    return kt_checkpoint_find(file, name, &index, NULL) == KT_OK;
}

static int compare_layers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

size_t kt_trace_layers(const struct kt_cli *cli, const struct kt_checkpoint *file, uint64_t **layers)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    char name[64];
    size_t n = 0;
    kt_checkpoint_info(file, &info);
    *layers = kt_cli_alloc(cli, (size_t)info.n_tensors, sizeof(**layers));
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        uint64_t layer;
        /* Accepts numbers only as this program writes them: not "layers.007." */
        if (kt_checkpoint_tensor(file, i, &tensor, NULL) == KT_OK &&
            sscanf(tensor.name, "layers.%" SCNu64 ".topk_ids", &layer) == 1 &&
            strcmp(name_tensor(name, sizeof(name), layer, "topk_ids"), tensor.name) == 0)
            (*layers)[n++] = layer;
    }
    qsort(*layers, n, sizeof(**layers), compare_layers);
    return n;
}

static bool is_float(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16;
}

/* Finds a matrix of `dtype` (NONE: a float) with `rows` and `cols` (0: any). */
static int find(const struct kt_cli *cli, const struct kt_checkpoint *file, const char *name, uint32_t dtype,
                uint64_t rows, uint64_t cols, uint64_t *index, struct kt_tensor_info *info)
{
    struct kt_error error;
    if (kt_checkpoint_find(file, name, index, &error) != KT_OK ||
        kt_checkpoint_tensor(file, *index, info, &error) != KT_OK)
        return kt_cli_error(cli, "input: %s", error.message);
    if (dtype != KT_DTYPE_NONE ? info->dtype != dtype : !is_float(info->dtype))
        return kt_cli_error(cli, "input: tensor %s is %s, but must be %s", name, kt_dtype_name(info->dtype),
                            dtype != KT_DTYPE_NONE ? kt_dtype_name(dtype) : "bf16, f16 or f32");
    if (info->n_dims != 2 || info->dims[0] == 0 || info->dims[1] == 0 || info->dims[0] > UINT32_MAX ||
        info->dims[1] > UINT32_MAX)
        return kt_cli_error(cli,
                            "input: tensor %s has %" PRIu32 " dimensions or an empty one, but must "
                            "be a matrix of one row per token",
                            name, info->n_dims);
    if (rows && info->dims[0] != rows)
        return kt_cli_error(cli,
                            "input: tensor %s has %" PRIu64 " rows, but hidden_states has %" PRIu64 " tokens",
                            name, info->dims[0], rows);
    if (cols && info->dims[1] != cols)
        return kt_cli_error(cli, "input: tensor %s has %" PRIu64 " columns, but must have %" PRIu64, name,
                            info->dims[1], cols);
    return KT_EXIT_OK;
}

static int copy(const struct kt_cli *cli, struct kt_checkpoint *file, uint64_t index,
                const struct kt_tensor_info *info, void **data)
{
    struct kt_error error;
    const void *source;
    if (kt_checkpoint_data(file, index, &source, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    *data = kt_cli_alloc(cli, (size_t)info->size, 1);
    memcpy(*data, source, (size_t)info->size);
    return KT_EXIT_OK;
}

/* A weight that is not finite would spoil the whole output, so it is an error. */
static int check_weights(const struct kt_cli *cli, const struct kt_trace *trace)
{
    for (uint64_t i = 0; i < (uint64_t)trace->n_tokens * trace->top_k; i++) {
        if (!isfinite(trace->weights[i]))
            return kt_cli_error(cli,
                                "input: tensor layers.%" PRIu64 ".topk_weights: token %" PRIu64
                                ", slot %" PRIu64 " is %g; weights must be finite",
                                trace->layer, i / trace->top_k, i % trace->top_k, (double)trace->weights[i]);
    }
    return KT_EXIT_OK;
}

/* The sizes of the batches: at least one token each, and all tokens together. */
static int take_batches(const struct kt_cli *cli, struct kt_trace *trace, const char *name,
                        const int64_t *sizes, uint64_t n)
{
    uint64_t sum = 0;
    trace->n_batches = (uint32_t)n;
    trace->batch = kt_cli_alloc(cli, n, sizeof(*trace->batch));
    for (uint64_t i = 0; i < n; i++) {
        if (sizes[i] < 1 || (uint64_t)sizes[i] > trace->n_tokens - sum)
            return kt_cli_error(cli,
                                "input: tensor %s: batch %" PRIu64 " has %" PRId64 " tokens; %" PRIu64
                                " of %" PRIu32 " are left",
                                name, i, sizes[i], trace->n_tokens - sum, trace->n_tokens);
        sum += (uint64_t)sizes[i];
        trace->batch[i] = (uint32_t)sizes[i];
    }
    if (sum != trace->n_tokens)
        return kt_cli_error(cli,
                            "input: tensor %s: the batches have %" PRIu64
                            " tokens, but the layer has %" PRIu32,
                            name, sum, trace->n_tokens);
    return KT_EXIT_OK;
}

static int read_batches(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_trace *trace)
{
    const int64_t all = trace->n_tokens;
    struct kt_tensor_info info;
    struct kt_error error;
    const void *data;
    uint64_t index;
    char name[64];
    name_tensor(name, sizeof(name), trace->layer, "batch_tokens");
    if (kt_checkpoint_find(file, name, &index, NULL) != KT_OK)
        return take_batches(cli, trace, name, &all, 1);
    if (kt_checkpoint_tensor(file, index, &info, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (info.dtype != KT_DTYPE_I64 || info.n_dims != 1 || info.dims[0] > trace->n_tokens)
        return kt_cli_error(cli,
                            "input: tensor %s has %" PRIu64 " numbers in %" PRIu32
                            " dimensions of %s, but must have one dimension of at most %" PRIu32
                            " numbers of i64",
                            name, info.n_dims ? info.dims[0] : 1, info.n_dims, kt_dtype_name(info.dtype),
                            trace->n_tokens);
    if (kt_checkpoint_data(file, index, &data, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    return take_batches(cli, trace, name, data, info.dims[0]);
}

static int read_routing(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_trace *trace)
{
    struct kt_tensor_info info;
    uint64_t index;
    char name[64];
    name_tensor(name, sizeof(name), trace->layer, "topk_ids");
    int code = find(cli, file, name, KT_DTYPE_I64, trace->n_tokens, 0, &index, &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, (void **)&trace->ids);
    if (code != KT_EXIT_OK)
        return code;
    trace->n_tokens = (uint32_t)info.dims[0];
    trace->top_k = (uint32_t)info.dims[1];
    name_tensor(name, sizeof(name), trace->layer, "topk_weights");
    code = find(cli, file, name, KT_DTYPE_F32, trace->n_tokens, trace->top_k, &index, &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, (void **)&trace->weights);
    if (code == KT_EXIT_OK)
        code = check_weights(cli, trace);
    return code == KT_EXIT_OK ? read_batches(cli, file, trace) : code;
}

static int read_hidden(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_trace *trace)
{
    struct kt_tensor_info info;
    uint64_t index;
    char name[64];
    name_tensor(name, sizeof(name), trace->layer, "hidden_states");
    int code = find(cli, file, name, KT_DTYPE_NONE, 0, 0, &index, &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, &trace->input);
    if (code != KT_EXIT_OK)
        return code;
    trace->n_tokens = (uint32_t)info.dims[0];
    trace->hidden_size = info.dims[1];
    trace->input_dtype = info.dtype;
    return KT_EXIT_OK;
}

static int read_expected(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_trace *trace)
{
    struct kt_tensor_info info;
    uint64_t index;
    char name[64];
    name_tensor(name, sizeof(name), trace->layer, "output");
    int code = find(cli, file, name, KT_DTYPE_F32, trace->n_tokens, trace->hidden_size, &index, &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, (void **)&trace->expected);
    return code;
}

static int read_all(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_checkpoint *expected,
                    struct kt_trace *trace)
{
    int code = read_hidden(cli, file, trace);
    if (code == KT_EXIT_OK)
        code = read_routing(cli, file, trace);
    if (code != KT_EXIT_OK || (!expected && !kt_trace_has(file, trace->layer, "output")))
        return code;
    return read_expected(cli, expected ? expected : file, trace);
}

/* Hands the trace to the caller on success. */
static int finish(struct kt_trace *made, int code, struct kt_trace *trace)
{
    if (code != KT_EXIT_OK)
        kt_trace_free(made);
    else
        *trace = *made;
    return code;
}

int kt_trace_read(const struct kt_cli *cli, struct kt_checkpoint *file, struct kt_checkpoint *expected,
                  uint64_t layer, struct kt_trace *trace)
{
    struct kt_trace made = {.layer = layer};
    return finish(&made, read_all(cli, file, expected, &made), trace);
}

int kt_trace_read_routing(const struct kt_cli *cli, struct kt_checkpoint *file, uint64_t layer,
                          struct kt_trace *trace)
{
    struct kt_trace made = {.layer = layer};
    int code = kt_trace_has(file, layer, "hidden_states") ? read_hidden(cli, file, &made) : KT_EXIT_OK;
    if (code == KT_EXIT_OK)
        code = read_routing(cli, file, &made);
    return finish(&made, code, trace);
}

void kt_trace_free(struct kt_trace *trace)
{
    free(trace->input);
    free(trace->ids);
    free(trace->weights);
    free(trace->expected);
    free(trace->batch);
    *trace = (struct kt_trace){.layer = 0};
}
