/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - kt inspect: what a checkpoint holds. */
#include "tools/kt/checkpoint/alone.h"
#include "tools/kt/checkpoint/linears.h"
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/base/table.h"
#include "tools/kt/checkpoint/whole.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define N_DTYPES 64
#define N_SUMS (N_DTYPES + 32)

struct args {
    bool tensors;
    const char *layers;  /* NULL: all */
    const char *experts; /* NULL: they are in the model */
};

/* The layers that are shown; NULL: everything, also what belongs to no layer. */
struct wanted {
    uint64_t *layers;
    size_t n;
};

static const struct kt_column layer_columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},
    {"top_k", "TOP-K", KT_COLUMN_UINT, 0, 0},
    {"hidden_size", "HIDDEN", KT_COLUMN_UINT, 0, 0},
    {"intermediate_size", "WIDTH", KT_COLUMN_UINT, 0, 0},
    {"gate", "GATE", KT_COLUMN_TEXT, 0, 0},
    {"up", "UP", KT_COLUMN_TEXT, 0, 0},
    {"down", "DOWN", KT_COLUMN_TEXT, 0, 0},
    {"activation", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"unusual", "ACTIVATION", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE}, /* all but silu */
    {"bias", "BIAS", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"form", "PACKED AS", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"bytes", "BYTES", KT_COLUMN_BYTES, 0, 0},
};

/* Packed ones of a store. */
static const struct kt_column linear_columns[] = {
    {"name", "LINEAR", KT_COLUMN_TEXT, 0, 0},
    {"rows", "ROWS", KT_COLUMN_UINT, 0, 0},
    {"cols", "COLS", KT_COLUMN_UINT, 0, 0},
    {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"bias", "BIAS", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"backend", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"form", "PACKED AS", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "BYTES", KT_COLUMN_BYTES, 0, 0},
};

static const struct kt_column type_columns[] = {
    {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"tensors", "TENSORS", KT_COLUMN_UINT, 0, 0},
    {"bytes", "BYTES", KT_COLUMN_BYTES, 0, 0},
};

static const struct kt_column tensor_columns[] = {
    {"name", "TENSOR", KT_COLUMN_TEXT, 0, 0},  {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, 0},  {"offset", "OFFSET", KT_COLUMN_UINT, 0, 0},
    {"bytes", "BYTES", KT_COLUMN_BYTES, 0, 0}, {"file", "FILE", KT_COLUMN_TEXT, 0, 0},
};

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static void add_facts(struct kt_output *output, const char *path, const struct kt_checkpoint *checkpoint,
                      const struct kt_checkpoint_info *info)
{
    uint64_t n_linears = kt_checkpoint_linear_count(checkpoint), linear_bytes = 0;
    struct kt_stored_linear_info linear;
    for (uint64_t i = 0; i < n_linears; i++)
        linear_bytes += kt_checkpoint_linear(checkpoint, i, &linear, NULL) == KT_OK ? linear.size : 0;
    /* A GGUF model may be called after one of its files. */
    bool folder = info->n_files > 1 && strcmp(info->format, "gguf") != 0;
    kt_output_fact_text(output, "path", folder || is_folder(path) ? "folder" : "file", path);
    kt_output_fact_text(output, "file_format", "format", info->format);
    kt_output_fact_text(output, "architecture", "architecture", info->architecture);
    kt_output_fact_text(output, "name", "name", info->name);
    kt_output_fact_uint(output, "n_files", info->n_files > 1 ? "files" : NULL, info->n_files);
    kt_output_fact_uint(output, "n_tensors", "tensors", info->n_tensors);
    /* Safetensors files do not say how many layers the model has. */
    kt_output_fact_uint(output, "n_layers", info->n_layers ? "layers" : NULL, info->n_layers);
    kt_output_fact_uint(output, "n_moe_layers", "layers with experts", info->n_moe_layers);
    kt_output_fact_bytes(output, "bytes", "size", info->size);
    kt_output_fact_bytes(output, "expert_bytes", "size of the experts", info->expert_size);
    kt_output_fact_uint(output, "n_packed_linears", n_linears ? "packed linears" : NULL, n_linears);
    kt_output_fact_bytes(output, "packed_linear_bytes", n_linears ? "size of the linears" : NULL,
                         linear_bytes);
}

/* A folder is read as safetensors where it has some; GGUF files beside them are other checkpoints. */
static void note_gguf(const struct kt_cli *cli, struct kt_output *output, const char *path,
                      const struct kt_checkpoint_info *info)
{
    DIR *folder = strcmp(info->format, "safetensors") == 0 ? opendir(path) : NULL;
    const struct dirent *entry;
    unsigned n = 0;
    while (folder && (entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);
        n += length > 5 && strcmp(entry->d_name + length - 5, ".gguf") == 0;
    }
    if (folder)
        closedir(folder);
    if (n == 0)
        return;
    char *note = kt_cli_format(cli, "The folder also holds %u GGUF %s: name the file to see what is in it.",
                               n, n == 1 ? "file" : "files");
    kt_output_note(output, note);
    free(note);
}

static void add_layer(struct kt_table *table, const struct kt_moe_info *moe)
{
    kt_table_row(table);
    kt_table_uint(table, "layer", moe->layer);
    kt_table_uint(table, "n_experts", moe->n_experts);
    if (moe->top_k)
        kt_table_uint(table, "top_k", moe->top_k);
    kt_table_uint(table, "hidden_size", moe->hidden_size);
    kt_table_uint(table, "intermediate_size", moe->intermediate_size);
    kt_table_text(table, "gate",
                  kt_activation_first(moe->activation) == KT_GATE ? kt_dtype_name(moe->dtype[KT_GATE])
                                                                  : "none");
    kt_table_text(table, "up", kt_dtype_name(moe->dtype[KT_UP]));
    kt_table_text(table, "down", kt_dtype_name(moe->dtype[KT_DOWN]));
    kt_table_text(table, "activation", kt_activation_name(moe->activation));
    if (moe->activation != KT_ACTIVATION_SILU)
        kt_table_text(table, "unusual", kt_activation_name(moe->activation));
    kt_table_bool(table, "bias", moe->has_bias != 0);
    if (*moe->stored_form)
        kt_table_text(table, "form", moe->stored_form);
    kt_table_uint(table, "bytes", moe->size);
}

static void add_tensor(struct kt_table *table, const struct kt_tensor_info *info, const char *type)
{
    char shape[192];
    size_t at = 0;
    for (uint32_t d = 0; d < info->n_dims && d < 8; d++)
        at += (size_t)snprintf(shape + at, sizeof(shape) - at, "%s%" PRIu64, d ? "x" : "", info->dims[d]);
    kt_table_row(table);
    kt_table_text(table, "name", info->name);
    kt_table_text(table, "type", type);
    kt_table_text(table, "shape", at ? shape : "scalar");
    kt_table_uint(table, "offset", info->offset);
    kt_table_uint(table, "bytes", info->size);
    kt_table_text(table, "file", info->file);
}

/* Is the tensor part of the layer, by its name, such as blk.3.x or model.layers.3.x? */
static bool is_of_layer(const char *name, uint64_t layer)
{
    char part[40];
    snprintf(part, sizeof(part), "blk.%" PRIu64 ".", layer);
    if (strncmp(name, part, strlen(part)) == 0)
        return true;
    snprintf(part, sizeof(part), "layers.%" PRIu64 ".", layer);
    const char *at = strstr(name, part);
    return at && (at == name || at[-1] == '.');
}

static bool is_wanted(const struct wanted *wanted, const char *name)
{
    bool found = wanted->layers == NULL;
    for (size_t i = 0; i < wanted->n && !found; i++)
        found = is_of_layer(name, wanted->layers[i]);
    return found;
}

static enum kt_status add_layers(struct kt_table *table, const struct kt_checkpoint *checkpoint,
                                 uint64_t n_layers, const struct wanted *wanted, struct kt_error *error)
{
    struct kt_moe_info moe;
    enum kt_status status = KT_OK;
    uint64_t n = wanted->layers ? wanted->n : n_layers;
    for (uint64_t i = 0; i < n && status == KT_OK; i++) {
        uint64_t layer = wanted->layers ? wanted->layers[i] : 0;
        if (!wanted->layers)
            status = kt_checkpoint_moe_layer(checkpoint, i, &layer, error);
        if (status == KT_OK)
            status = kt_checkpoint_moe(checkpoint, layer, &moe, error);
        if (status == KT_OK)
            add_layer(table, &moe);
    }
    return status;
}

static void add_linears(struct kt_table *table, const struct kt_checkpoint *checkpoint,
                        const struct wanted *wanted)
{
    struct kt_stored_linear_info info;
    for (uint64_t i = 0; kt_checkpoint_linear(checkpoint, i, &info, NULL) == KT_OK; i++) {
        if (!is_wanted(wanted, info.name))
            continue;
        kt_table_row(table);
        kt_table_text(table, "name", info.name);
        kt_table_uint(table, "rows", info.rows);
        kt_table_uint(table, "cols", info.cols);
        kt_table_text(table, "type", kt_dtype_name(info.dtype));
        kt_table_bool(table, "bias", info.has_bias != 0);
        kt_table_text(table, "backend", info.stored_backend);
        kt_table_text(table, "form", info.stored_form);
        kt_table_uint(table, "bytes", info.size);
    }
}

/* The tensors of a type. Types that have no enum kt_dtype come after those that do, by the names that the
 * file gives them; the last one stands for all that find no place. */
struct sum {
    const char *type;
    uint64_t count, bytes;
};

static void add_to_sum(struct sum sums[N_SUMS], const struct kt_tensor_info *info, const char *type)
{
    size_t i = info->dtype;
    if (i == KT_DTYPE_NONE || i >= N_DTYPES)
        for (i = N_DTYPES; i + 1 < N_SUMS && sums[i].type && strcmp(sums[i].type, type) != 0;)
            i++;
    sums[i].type = i + 1 < N_SUMS ? type : "?";
    sums[i].count++;
    sums[i].bytes += info->size;
}

/* Walks over the tensors: sums by type and, if `tensors` is not NULL, a row for each tensor. */
static enum kt_status add_tensors(struct kt_table *types, struct kt_table *tensors,
                                  const struct kt_checkpoint *checkpoint, uint64_t n_tensors,
                                  const struct wanted *wanted, struct kt_error *error)
{
    struct sum sums[N_SUMS] = {{.count = 0}};
    struct kt_tensor_info info;
    for (uint64_t i = 0; i < n_tensors; i++) {
        enum kt_status status = kt_checkpoint_tensor(checkpoint, i, &info, error);
        if (status != KT_OK)
            return status;
        if (!is_wanted(wanted, info.name))
            continue;
        const char *type = kt_checkpoint_tensor_type(checkpoint, i);
        add_to_sum(sums, &info, type);
        if (tensors)
            add_tensor(tensors, &info, type);
    }
    for (size_t i = 0; i < N_SUMS && types; i++) {
        if (sums[i].count == 0)
            continue;
        kt_table_row(types);
        kt_table_text(types, "type", sums[i].type);
        kt_table_uint(types, "tensors", sums[i].count);
        kt_table_uint(types, "bytes", sums[i].bytes);
    }
    return KT_OK;
}

static int print(struct kt_cli *cli, struct kt_checkpoint *checkpoint, struct kt_checkpoint *experts,
                 const struct args *args, const struct wanted *wanted)
{
    const char *schema = args->tensors ? "kt.inspect.tensors" : "kt.inspect";
    struct kt_output *output = kt_output_create(cli, schema, 1);
    struct kt_table *layers = NULL, *types = NULL, *tensors = NULL;
    struct kt_checkpoint_info info;
    struct kt_error error;
    enum kt_status status = KT_OK;
    kt_checkpoint_info(checkpoint, &info);
    add_facts(output, cli->arguments[0], checkpoint, &info);
    note_gguf(cli, output, cli->arguments[0], &info);
    if (!args->tensors && *info.architecture)
        kt_whole_family(cli, output, checkpoint, experts);
    if (args->tensors) {
        tensors = kt_output_table(output, "rows", tensor_columns, COUNT(tensor_columns));
    } else {
        layers = kt_output_table(output, "rows", layer_columns, COUNT(layer_columns));
        add_linears(kt_output_table(output, "linears", linear_columns, COUNT(linear_columns)), checkpoint,
                    wanted);
        types = kt_output_table(output, "types", type_columns, COUNT(type_columns));
        if (wanted->layers)
            tensors = kt_output_table(output, "tensors", tensor_columns, COUNT(tensor_columns));
    }
    if (layers)
        status = add_layers(layers, checkpoint, info.n_moe_layers, wanted, &error);
    if (status == KT_OK)
        status = add_tensors(types, tensors, checkpoint, info.n_tensors, wanted, &error);
    if (status != KT_OK) {
        kt_output_free(output);
        return kt_cli_fail(cli, &error);
    }
    return kt_output_finish(output, KT_EXIT_OK);
}

static const struct kt_cli_option rows[] = {KT_CLI_LAYERS,
                                            OPTION_FLAG("tensors", 't', tensors, "list every tensor"),
                                            OPTION_TEXT("experts", 0, experts, "PATH",
                                                        "for the whole model, load the experts from this "
                                                        "store or file"),
                                            {.name = NULL}};
const struct kt_cli_command kt_inspect_command =
    {.usage = "MODEL [OPTION]...",
     .about = "Shows the contents of a checkpoint (a GGUF file, or a folder of safetensors files): layers "
              "with experts, their shapes and formats, the bytes of each type, and the model's family, or "
              "what is missing to run it. Only headers are read. Of a config.json without weights it shows "
              "whether the model would run here, and how much memory it needs.",
     .options = rows,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 1,
     .opens_checkpoint = true};

static int inspect_alone(struct kt_cli *cli, const struct args *args, char *path)
{
    int code =
        args->tensors || args->layers || args->experts
            ? kt_cli_error(cli, "%s: there are no files of weights beside it, so no layers and tensors", path)
            : kt_inspect_config(cli, path);
    free(path);
    return code;
}

int kt_cmd_inspect(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.layers = NULL};
    struct wanted wanted = {.layers = NULL};
    struct kt_checkpoint *checkpoint, *experts = NULL;
    if (!kt_cli_parse(cli, &kt_inspect_command, argc, argv, &args))
        return cli->exit_code;
    char *alone = kt_config_alone(cli, cli->arguments[0]);
    if (alone)
        return inspect_alone(cli, &args, alone);
    int code = kt_cli_checkpoint(cli, cli->arguments[0], &checkpoint);
    if (code != KT_EXIT_OK)
        return code;
    if (args.experts)
        code = kt_cli_checkpoint(cli, args.experts, &experts);
    if (code == KT_EXIT_OK && args.layers && strcmp(args.layers, "all") != 0)
        code = kt_model_layers(cli, checkpoint, "layers", args.layers, &wanted.layers, &wanted.n);
    if (code == KT_EXIT_OK)
        code = print(cli, checkpoint, experts, &args, &wanted);
    free(wanted.layers);
    kt_checkpoint_close(experts);
    kt_checkpoint_close(checkpoint);
    return code;
}
