/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - writes the outputs of layers to a safetensors file, whole or not at all. */
#include "tools/kt/forward/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kt_save {
    const struct kt_cli *cli;
    struct kt_writer *writer;
};

static int fail(const struct kt_cli *cli, const struct kt_error *error)
{
    return kt_cli_error(cli, "output %s", error->message);
}

int kt_save_create(const struct kt_cli *cli, const char *path, const struct kt_save_tensor *tensors, size_t n,
                   struct kt_save **save)
{
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_tensor_info *infos = kt_cli_alloc(cli, n, sizeof(*infos));
    struct kt_save *made = kt_cli_alloc(cli, 1, sizeof(*made));
    struct kt_error error;
    for (size_t i = 0; i < n; i++) {
        infos[i] =
            (struct kt_tensor_info){.name = kt_cli_format(cli, "layers.%" PRIu64 ".output", tensors[i].layer),
                                    .dtype = KT_DTYPE_F32,
                                    .n_dims = 2,
                                    .dims = {tensors[i].n_tokens, tensors[i].hidden_size}};
    }
    params.tensors = infos;
    params.n_tensors = n;
    made->cli = cli;
    kt_signals_hold(true);
    enum kt_status status = kt_writer_create(path, &params, &made->writer, &error);
    if (status == KT_OK)
        kt_signals_temporary(kt_writer_temporary(made->writer));
    kt_signals_hold(false);
    for (size_t i = 0; i < n; i++)
        free((char *)infos[i].name);
    free(infos);
    if (status != KT_OK) {
        free(made);
        return fail(cli, &error);
    }
    *save = made;
    return KT_EXIT_OK;
}

int kt_save_write(struct kt_save *save, const float *values, uint64_t n)
{
    struct kt_error error;
    if (kt_writer_add(save->writer, values, n * sizeof(*values), &error) != KT_OK)
        return fail(save->cli, &error);
    return KT_EXIT_OK;
}

int kt_save_finish(struct kt_save *save, int code)
{
    struct kt_error error;
    if (!save)
        return code;
    if (code != KT_EXIT_OK)
        kt_writer_cancel(save->writer);
    else if (kt_writer_finish(save->writer, &error) != KT_OK)
        code = fail(save->cli, &error);
    kt_signals_temporary(NULL);
    free(save);
    return code;
}
