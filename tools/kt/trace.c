/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - reads recorded input of MoE layers from a safetensors file. */
#include "tools/kt/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *name_tensor(char *name, size_t size, uint64_t layer, const char *what)
{
    snprintf(name, size, "layers.%" PRIu64 ".%s", layer, what);
    return name;
}

bool kt_trace_has(const struct kt_checkpoint *file, uint64_t layer)
{
    char name[64];
    uint64_t index;
    name_tensor(name, sizeof(name), layer, "hidden_states");
    return kt_checkpoint_find(file, name, &index, NULL) == KT_OK;
}

static bool is_float(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16;
}

/* Finds a matrix of `dtype` (NONE: a float) with `rows` and `cols` (0: any). */
static int find(const struct kt_cli *cli, const struct kt_checkpoint *file, const char *name,
                uint32_t dtype, uint64_t rows, uint64_t cols, uint64_t *index,
                struct kt_tensor_info *info)
{
    struct kt_error error;

    if (kt_checkpoint_find(file, name, index, &error) != KT_OK ||
        kt_checkpoint_tensor(file, *index, info, &error) != KT_OK)
        return kt_cli_error(cli, "input: %s", error.message);
    if (dtype != KT_DTYPE_NONE ? info->dtype != dtype : !is_float(info->dtype))
        return kt_cli_error(cli, "input: tensor %s is %s, but must be %s", name,
                            kt_dtype_name(info->dtype),
                            dtype != KT_DTYPE_NONE ? kt_dtype_name(dtype) : "bf16, f16 or f32");
    if (info->n_dims != 2 || info->dims[0] == 0 || info->dims[1] == 0 ||
        info->dims[0] > UINT32_MAX || info->dims[1] > UINT32_MAX)
        return kt_cli_error(cli,
                            "input: tensor %s has %" PRIu32 " dimensions or an empty one, but must "
                            "be a matrix of one row per token",
                            name, info->n_dims);
    if (rows && info->dims[0] != rows)
        return kt_cli_error(
            cli, "input: tensor %s has %" PRIu64 " rows, but hidden_states has %" PRIu64 " tokens",
            name, info->dims[0], rows);
    if (cols && info->dims[1] != cols)
        return kt_cli_error(cli, "input: tensor %s has %" PRIu64 " columns, but must have %" PRIu64,
                            name, info->dims[1], cols);
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

static int read_routing(const struct kt_cli *cli, struct kt_checkpoint *file,
                        struct kt_trace *trace)
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
    trace->top_k = (uint32_t)info.dims[1];
    name_tensor(name, sizeof(name), trace->layer, "topk_weights");
    code = find(cli, file, name, KT_DTYPE_F32, trace->n_tokens, trace->top_k, &index, &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, (void **)&trace->weights);
    return code;
}

static int read_expected(const struct kt_cli *cli, struct kt_checkpoint *file,
                         struct kt_trace *trace)
{
    struct kt_tensor_info info;
    uint64_t index;
    char name[64];

    name_tensor(name, sizeof(name), trace->layer, "output");
    int code = find(cli, file, name, KT_DTYPE_F32, trace->n_tokens, trace->hidden_size, &index,
                    &info);
    if (code == KT_EXIT_OK)
        code = copy(cli, file, index, &info, (void **)&trace->expected);
    return code;
}

static int read_all(const struct kt_cli *cli, struct kt_checkpoint *file,
                    struct kt_checkpoint *expected, struct kt_trace *trace)
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
    code = read_routing(cli, file, trace);
    if (code != KT_EXIT_OK)
        return code;
    name_tensor(name, sizeof(name), trace->layer, "output");
    if (!expected && kt_checkpoint_find(file, name, &index, NULL) != KT_OK)
        return KT_EXIT_OK;
    return read_expected(cli, expected ? expected : file, trace);
}

int kt_trace_read(const struct kt_cli *cli, struct kt_checkpoint *file,
                  struct kt_checkpoint *expected, uint64_t layer, struct kt_trace *trace)
{
    struct kt_trace made = {.layer = layer};
    int code = read_all(cli, file, expected, &made);

    if (code != KT_EXIT_OK)
        kt_trace_free(&made);
    else
        *trace = made;
    return code;
}

void kt_trace_free(struct kt_trace *trace)
{
    free(trace->input);
    free(trace->ids);
    free(trace->weights);
    free(trace->expected);
    *trace = (struct kt_trace){.layer = 0};
}
