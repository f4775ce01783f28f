/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - kt verify: reads a store and compares it with its checksums. */
#include "tools/kt/checkpoint/linears.h"
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 65536

struct args {
    const char *layers;
};

static const struct kt_column columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"form", "FORM", KT_COLUMN_TEXT, 0, 0},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},
    {"packed_bytes", "PACKED", KT_COLUMN_BYTES, 0, 0},
    {"source", "SOURCE", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, 0},
};

static const struct kt_column linear_columns[] = {
    {"name", "LINEAR", KT_COLUMN_TEXT, 0, 0},     {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"form", "FORM", KT_COLUMN_TEXT, 0, 0},       {"rows", "ROWS", KT_COLUMN_UINT, 0, 0},
    {"cols", "COLS", KT_COLUMN_UINT, 0, 0},       {"packed_bytes", "PACKED", KT_COLUMN_BYTES, 0, 0},
    {"source", "SOURCE", KT_COLUMN_TEXT, 0, 0},   {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"message", "MESSAGE", KT_COLUMN_TEXT, 0, 0},
};

/* What is verified. */
struct verification {
    const struct kt_cli *cli;
    const char *path;
    struct kt_checkpoint *checkpoint;
    uint64_t *layers;
    size_t n, n_linears;
    struct kt_model_linear *linears;
    uint64_t done, total; /* bytes */
};

/* True if the layer is intact. */
static bool verify_layer(const struct kt_checkpoint *checkpoint, uint64_t number, struct kt_table *table)
{
    struct kt_moe_info moe;
    struct kt_error error = {.message = ""};
    enum kt_status status = kt_checkpoint_moe(checkpoint, number, &moe, &error);
    kt_table_row(table);
    kt_table_uint(table, "layer", number);
    if (status == KT_OK) {
        kt_table_text(table, "backend", moe.stored_backend);
        kt_table_text(table, "form", moe.stored_form);
        kt_table_uint(table, "n_experts", moe.n_experts);
        kt_table_uint(table, "packed_bytes", moe.size);
        kt_table_text(table, "source", moe.stored_source);
        status = kt_checkpoint_verify(checkpoint, number, &error);
    }
    kt_table_text(table, "state", status == KT_OK ? "ok" : "damaged");
    kt_table_text(table, "message", status == KT_OK ? "" : error.message);
    return status == KT_OK;
}

/* A store may hold a part of a model, by choice or after a stopped run. */
static void note_missing(const struct kt_cli *cli, const char *path, const struct kt_checkpoint *checkpoint,
                         const char *all)
{
    uint64_t *layers = kt_cli_alloc(cli, MAX_LAYERS, sizeof(*layers));
    size_t n = strstr(all, "...") ? 0 : kt_cli_list(cli, "layers", all, layers, MAX_LAYERS);
    size_t n_missing = 0;
    uint64_t first = 0;
    for (size_t i = 0; i < n; i++) {
        struct kt_moe_info moe;
        if (kt_checkpoint_moe(checkpoint, layers[i], &moe, NULL) == KT_OK)
            continue;
        first = n_missing++ ? first : layers[i];
    }
    free(layers);
    if (n_missing > 0)
        kt_cli_warn(cli,
                    "%s: %zu of the model's %zu layers with experts are not in it, the first is %" PRIu64
                    "; kt convert --resume makes them",
                    path, n_missing, n, first);
}

static bool verify_linear(const struct kt_checkpoint *checkpoint, const struct kt_model_linear *linear,
                          struct kt_table *table)
{
    struct kt_error error = {.message = ""};
    enum kt_status status = kt_checkpoint_verify_linear(checkpoint, linear->name, &error);
    kt_table_row(table);
    kt_table_text(table, "name", linear->name);
    kt_table_text(table, "backend", linear->stored.stored_backend);
    kt_table_text(table, "form", linear->stored.stored_form);
    kt_table_uint(table, "rows", linear->stored.rows);
    kt_table_uint(table, "cols", linear->stored.cols);
    kt_table_uint(table, "packed_bytes", linear->stored.size);
    kt_table_text(table, "source", linear->stored.stored_source);
    kt_table_text(table, "state", status == KT_OK ? "ok" : "damaged");
    kt_table_text(table, "message", status == KT_OK ? "" : error.message);
    return status == KT_OK;
}

/* Lists what is asked for. */
static int list(struct verification *all, const char *text)
{
    struct kt_moe_info moe = {.stored_form = ""};
    struct kt_error error;
    bool every = !text || strcmp(text, "all") == 0;
    int code = KT_EXIT_OK;
    if (!kt_model_only_linears(all->checkpoint, text))
        code = kt_model_layers(all->cli, all->checkpoint, "layers", text, &all->layers, &all->n);
    if (code != KT_EXIT_OK)
        return code;
    for (size_t i = 0; i < all->n; i++) {
        if (kt_checkpoint_moe(all->checkpoint, all->layers[i], &moe, &error) == KT_OK)
            all->total += moe.size;
    }
    if (!*moe.stored_form && kt_checkpoint_linear_count(all->checkpoint) == 0)
        return kt_cli_error(all->cli,
                            "%s: is a checkpoint in its source format, which has no checksums; kt "
                            "convert makes a store",
                            all->path);
    all->linears =
        kt_model_linears(all->cli, all->checkpoint, every ? NULL : all->layers, all->n, &all->n_linears);
    for (size_t i = 0; i < all->n_linears; i++)
        all->total += all->linears[i].stored.size;
    return KT_EXIT_OK;
}

/* The number of layers and linears that are damaged. */
static size_t verify_all(struct verification *all, struct kt_output *output)
{
    struct kt_moe_info moe;
    size_t n_damaged = 0;
    struct kt_table *table = kt_output_table(output, "rows", columns, COUNT(columns));
    for (size_t i = 0; i < all->n; i++) {
        kt_progress_bytes(all->done, all->total);
        n_damaged += !verify_layer(all->checkpoint, all->layers[i], table);
        if (kt_checkpoint_moe(all->checkpoint, all->layers[i], &moe, NULL) == KT_OK)
            all->done += moe.size;
    }
    table = kt_output_table(output, "linears", linear_columns, COUNT(linear_columns));
    for (size_t i = 0; i < all->n_linears; i++) {
        kt_progress_bytes(all->done, all->total);
        n_damaged += !verify_linear(all->checkpoint, &all->linears[i], table);
        all->done += all->linears[i].stored.size;
    }
    return n_damaged;
}

static int verify(struct kt_cli *cli, const char *path, const char *text, struct kt_checkpoint *checkpoint)
{
    struct verification all = {.cli = cli, .path = path, .checkpoint = checkpoint};
    struct kt_moe_info moe;
    int code = list(&all, text);
    if (code == KT_EXIT_OK) {
        struct kt_output *output = kt_output_create(cli, "kt.verify", 1);
        kt_progress_start(cli, path);
        size_t n_damaged = verify_all(&all, output);
        kt_progress_stop();
        if (all.n > 0 && kt_checkpoint_moe(checkpoint, all.layers[all.n - 1], &moe, NULL) == KT_OK)
            note_missing(cli, path, checkpoint, moe.stored_layers);
        code = kt_output_finish(output, KT_EXIT_OK);
        if (n_damaged > 0)
            code = kt_cli_error(cli, "%zu of %zu layers%s are damaged; kt convert --resume makes them again",
                                n_damaged, all.n + all.n_linears, all.n_linears ? " and linears" : "");
    }
    kt_model_linears_free(all.linears, all.n_linears);
    free(all.layers);
    return code;
}

static const struct kt_cli_option options[] = {KT_CLI_LAYERS, {.name = NULL}};

const struct kt_cli_command kt_verify_command =
    {.usage = "MODEL [OPTION]...",
     .about =
         "Checks the packed experts and linears of a store made by kt convert against its checksums. Exit "
         "status 1 if a layer or linear is damaged.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 1,
     .opens_checkpoint = true};

int kt_cmd_verify(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.layers = NULL};
    struct kt_checkpoint *checkpoint;
    if (!kt_cli_parse(cli, &kt_verify_command, argc, argv, &args))
        return cli->exit_code;
    int code = kt_cli_checkpoint(cli, cli->arguments[0], &checkpoint);
    if (code != KT_EXIT_OK)
        return code;
    code = verify(cli, cli->arguments[0], args.layers, checkpoint);
    kt_checkpoint_close(checkpoint);
    return code;
}
