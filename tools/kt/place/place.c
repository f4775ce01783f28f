/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - kt place: chooses the experts for a GPU, by a budget and by statistics of use. */
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/model/names.h"
#include "tools/kt/place/stats.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NOT_GIVEN UINT64_MAX
#define MOST_ROWS 65536 /* layers, and experts of a layer */

struct args {
    const char *model, *shape, *update, *output;
    uint64_t gpu_experts, total, max_moves, seed;
    double ratio;  /* < 0: not given */
    int placement; /* < 0: not given; the order of enum kt_placement */
};

/* The experts of a model, a row for each layer with experts. */
struct placing {
    struct kt_cli *cli;
    struct args args;
    struct kt_stats *stats; /* NULL: none */
    uint32_t n_layers, n_experts;
    uint64_t *layers; /* [n_layers] */
    uint64_t *counts; /* [n_layers][n_experts]; zeros without statistics */
    uint8_t *masks;   /* likewise */
    double share_before;
    struct kt_place_move *moves;
    uint32_t n_moves;
};

static const struct kt_column layer_columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},
    {"n_on_gpu", "ON GPU", KT_COLUMN_UINT, 0, 0},
    {"count", "COUNT", KT_COLUMN_UINT, 0, 0},
    {"count_on_gpu", "OF IT ON GPU", KT_COLUMN_UINT, 0, 0},
    {"share_on_gpu", "SHARE", KT_COLUMN_REAL, 3, 0},
};

static const struct kt_column move_columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"leaves", "LEAVES", KT_COLUMN_UINT, 0, 0},
    {"leaves_count", "ITS COUNT", KT_COLUMN_UINT, 0, 0},
    {"comes", "COMES", KT_COLUMN_UINT, 0, 0},
    {"comes_count", "ITS COUNT", KT_COLUMN_UINT, 0, 0},
};

/* ---- the layers ----------------------------------------------------------------------------- */

static void make_rows(struct placing *placing, uint32_t n_layers, uint32_t n_experts)
{
    placing->n_layers = n_layers;
    placing->n_experts = n_experts;
    placing->layers = kt_cli_alloc(placing->cli, n_layers, sizeof(*placing->layers));
    placing->counts = kt_cli_alloc(placing->cli, n_layers, n_experts * sizeof(*placing->counts));
    placing->masks = kt_cli_alloc(placing->cli, n_layers, n_experts);
}

static int take_shape(struct placing *placing)
{
    uint64_t n[2];
    size_t count = kt_cli_list(placing->cli, "shape", placing->args.shape, n, COUNT(n));
    if (count == 0)
        return KT_EXIT_USAGE;
    if (count != 2 || n[0] < 1 || n[0] > MOST_ROWS || n[1] < 1 || n[1] > MOST_ROWS)
        return kt_cli_usage(placing->cli,
                            "--shape %s: two numbers of 1 to %d are needed, layers with experts and "
                            "experts of a layer",
                            placing->args.shape, MOST_ROWS);
    make_rows(placing, (uint32_t)n[0], (uint32_t)n[1]);
    for (uint32_t l = 0; l < placing->n_layers; l++)
        placing->layers[l] = l;
    return KT_EXIT_OK;
}

static int take_model(struct placing *placing)
{
    struct kt_checkpoint *model;
    struct kt_moe_info moe;
    struct kt_error error;
    uint64_t *layers = NULL;
    size_t n = 0;
    int code = kt_cli_checkpoint(placing->cli, placing->args.model, &model);
    if (code != KT_EXIT_OK)
        return code;
    code = kt_model_layers(placing->cli, model, "layers", NULL, &layers, &n);
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++) {
        if (kt_checkpoint_moe(model, layers[i], &moe, &error) != KT_OK)
            code = kt_cli_fail(placing->cli, &error);
        else if (i == 0)
            make_rows(placing, (uint32_t)n, moe.n_experts);
        else if (moe.n_experts != placing->n_experts)
            code = kt_cli_error(placing->cli,
                                "%s: layer %" PRIu64 " has %" PRIu32 " experts, layer %" PRIu64
                                " has %" PRIu32 "; masks need the same number in each",
                                placing->args.model, layers[i], moe.n_experts, layers[0], placing->n_experts);
    }
    if (code == KT_EXIT_OK)
        memcpy(placing->layers, layers, n * sizeof(*layers));
    free(layers);
    kt_checkpoint_close(model);
    return code;
}

/* Finds a tensor [n_layers] or [n_layers][n_experts] of the file of masks. */
static int find_tensor(const struct placing *placing, struct kt_checkpoint *file, const char *name,
                       uint32_t dtype, uint32_t n_dims, struct kt_tensor_info *info, const void **data)
{
    const char *path = placing->args.update;
    struct kt_error error;
    uint64_t index;
    if (kt_checkpoint_find(file, name, &index, &error) != KT_OK ||
        kt_checkpoint_tensor(file, index, info, &error) != KT_OK)
        return kt_cli_fail(placing->cli, &error);
    if (info->dtype != dtype || info->n_dims != n_dims)
        return kt_cli_error(placing->cli,
                            "%s: tensor \"%s\" has %" PRIu32 " dimensions of %s, but must have %" PRIu32
                            " of %s",
                            path, name, info->n_dims, kt_dtype_name(info->dtype), n_dims,
                            kt_dtype_name(dtype));
    for (uint32_t d = 0; d < n_dims; d++) {
        if (info->dims[d] < 1 || info->dims[d] > MOST_ROWS)
            return kt_cli_error(placing->cli,
                                "%s: tensor \"%s\": dimension %" PRIu32 " is %" PRIu64
                                "; 1 to %d is possible",
                                path, name, d, info->dims[d], MOST_ROWS);
    }
    if (kt_checkpoint_data(file, index, data, &error) != KT_OK)
        return kt_cli_fail(placing->cli, &error);
    return KT_EXIT_OK;
}

/* Without a tensor "layers" they are 0, 1, 2 and so on. */
static int read_layers(struct placing *placing, struct kt_checkpoint *file)
{
    struct kt_tensor_info info;
    const void *data;
    uint64_t index;
    for (uint32_t l = 0; l < placing->n_layers; l++)
        placing->layers[l] = l;
    if (kt_checkpoint_find(file, "layers", &index, NULL) != KT_OK)
        return KT_EXIT_OK;
    int code = find_tensor(placing, file, "layers", KT_DTYPE_I64, 1, &info, &data);
    if (code != KT_EXIT_OK)
        return code;
    if (info.dims[0] != placing->n_layers)
        return kt_cli_error(placing->cli,
                            "%s: tensor \"layers\" has %" PRIu64 " numbers, but \"masks\" %" PRIu32 " rows",
                            placing->args.update, info.dims[0], placing->n_layers);
    memcpy(placing->layers, data, placing->n_layers * sizeof(*placing->layers));
    for (uint32_t l = 0; l < placing->n_layers; l++) {
        if (placing->layers[l] > INT64_MAX || (l > 0 && placing->layers[l] <= placing->layers[l - 1]))
            return kt_cli_error(placing->cli,
                                "%s: tensor \"layers\", element %" PRIu32 " is %" PRId64
                                "; numbers must rise and not be negative",
                                placing->args.update, l, (int64_t)placing->layers[l]);
    }
    return KT_EXIT_OK;
}

static int take_masks(struct placing *placing)
{
    struct kt_checkpoint *file;
    struct kt_tensor_info info;
    const void *data;
    int code = kt_cli_checkpoint(placing->cli, placing->args.update, &file);
    if (code != KT_EXIT_OK)
        return code;
    code = find_tensor(placing, file, "masks", KT_DTYPE_U8, 2, &info, &data);
    if (code == KT_EXIT_OK) {
        make_rows(placing, (uint32_t)info.dims[0], (uint32_t)info.dims[1]);
        memcpy(placing->masks, data, (size_t)info.size);
        code = read_layers(placing, file);
    }
    for (uint64_t i = 0; code == KT_EXIT_OK && i < info.size; i++) {
        if (placing->masks[i] > 1)
            code = kt_cli_error(placing->cli,
                                "%s: tensor \"masks\": layer %" PRIu64 ", expert %" PRIu64
                                " is %u, but must be 0 or 1",
                                placing->args.update, placing->layers[i / placing->n_experts],
                                i % placing->n_experts, (unsigned)placing->masks[i]);
    }
    kt_checkpoint_close(file);
    return code;
}

/* Copies the counts of each layer into its row. */
static int take_counts(struct placing *placing)
{
    struct kt_stats_info info;
    uint32_t row = 0;
    if (!placing->stats)
        return KT_EXIT_OK;
    kt_stats_info(placing->stats, &info);
    if (placing->n_layers == 0) {
        make_rows(placing, info.n_layers, info.n_experts);
        memcpy(placing->layers, info.layers, info.n_layers * sizeof(*info.layers));
    }
    if (info.n_experts != placing->n_experts)
        return kt_cli_error(placing->cli, "the statistics are of %" PRIu32 " experts a layer, not %" PRIu32,
                            info.n_experts, placing->n_experts);
    for (uint32_t l = 0; l < info.n_layers; l++) {
        while (row < placing->n_layers && placing->layers[row] < info.layers[l])
            row++;
        if (row == placing->n_layers || placing->layers[row] != info.layers[l])
            return kt_cli_error(placing->cli,
                                "the statistics are of layer %" PRIu64 " too, for which there is no mask",
                                info.layers[l]);
        memcpy(placing->counts + (size_t)row * info.n_experts, info.counts + (size_t)l * info.n_experts,
               info.n_experts * sizeof(*info.counts));
    }
    return KT_EXIT_OK;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* A share; 0 of nothing. */
static double find_share(const struct placing *placing, uint32_t begin, uint32_t end, uint64_t *all,
                         uint64_t *on_gpu)
{
    *all = *on_gpu = 0;
    for (size_t i = (size_t)begin * placing->n_experts; i < (size_t)end * placing->n_experts; i++) {
        *all += placing->counts[i];
        *on_gpu += placing->masks[i] ? placing->counts[i] : 0;
    }
    return *all ? (double)*on_gpu / (double)*all : 0;
}

static uint64_t count_masks(const struct placing *placing, uint32_t begin, uint32_t end)
{
    uint64_t n = 0;
    for (size_t i = (size_t)begin * placing->n_experts; i < (size_t)end * placing->n_experts; i++)
        n += placing->masks[i];
    return n;
}

/* The number of experts on the GPU, of all layers. */
static int find_budget(const struct placing *placing, uint64_t *budget)
{
    const struct args *args = &placing->args;
    uint64_t all = (uint64_t)placing->n_layers * placing->n_experts;
    if (args->ratio > 1)
        return kt_cli_usage(placing->cli, "--ratio %g: it must be 0 to 1", args->ratio);
    if (args->gpu_experts != NOT_GIVEN && args->gpu_experts > placing->n_experts)
        return kt_cli_usage(placing->cli, "--gpu-experts %" PRIu64 ": a layer has %" PRIu32,
                            args->gpu_experts, placing->n_experts);
    if (args->total != NOT_GIVEN && args->total > all)
        return kt_cli_usage(placing->cli,
                            "--total %" PRIu64 ": %" PRIu32 " layers of %" PRIu32 " experts have %" PRIu64,
                            args->total, placing->n_layers, placing->n_experts, all);
    *budget = args->gpu_experts != NOT_GIVEN ? args->gpu_experts * placing->n_layers
              : args->total != NOT_GIVEN     ? args->total
                                             : (uint64_t)(args->ratio * (double)all + 1e-9);
    return KT_EXIT_OK;
}

static int place(struct placing *placing)
{
    struct kt_place_params params = KT_PLACE_PARAMS_INIT;
    struct kt_error error;
    int code = find_budget(placing, &params.n_on_gpu);
    if (code != KT_EXIT_OK)
        return code;
    params.placement = (enum kt_placement)placing->args.placement;
    params.n_layers = placing->n_layers;
    params.n_experts = placing->n_experts;
    params.seed = placing->args.seed;
    params.counts = placing->counts;
    return kt_place(&params, placing->masks, &error) == KT_OK ? KT_EXIT_OK
                                                              : kt_cli_fail(placing->cli, &error);
}

static int update(struct placing *placing)
{
    uint64_t all, on_gpu, most = (uint64_t)placing->n_layers * placing->n_experts;
    uint32_t max = (uint32_t)(placing->args.max_moves < most ? placing->args.max_moves : most);
    struct kt_error error;
    placing->share_before = find_share(placing, 0, placing->n_layers, &all, &on_gpu);
    placing->moves = kt_cli_alloc(placing->cli, max, sizeof(*placing->moves));
    if (kt_place_update(placing->counts, placing->n_layers, placing->n_experts, placing->masks, max,
                        placing->moves, &placing->n_moves, &error) != KT_OK)
        return kt_cli_fail(placing->cli, &error);
    return KT_EXIT_OK;
}

/* ---- output --------------------------------------------------------------------------------- */

static int write_masks(const struct placing *placing)
{
    uint64_t size = (uint64_t)placing->n_layers * placing->n_experts;
    static const char *const metadata[] = {"format", "kt-masks", "version", "1"};
    const struct kt_tensor_info tensors[] =
        {{.name = "layers", .dtype = KT_DTYPE_I64, .n_dims = 1, .dims = {placing->n_layers}},
         {.name = "masks",
          .dtype = KT_DTYPE_U8,
          .n_dims = 2,
          .dims = {placing->n_layers, placing->n_experts}}};
    struct kt_writer_params params = KT_WRITER_PARAMS_INIT;
    struct kt_writer *writer;
    struct kt_error error;
    if (!placing->args.output)
        return KT_EXIT_OK;
    params.tensors = tensors;
    params.n_tensors = COUNT(tensors);
    params.metadata = metadata;
    params.n_metadata = 2;
    kt_signals_hold(true);
    enum kt_status status = kt_writer_create(placing->args.output, &params, &writer, &error);
    if (status == KT_OK)
        kt_signals_temporary(kt_writer_temporary(writer));
    kt_signals_hold(false);
    if (status != KT_OK)
        return kt_cli_error(placing->cli, "output %s", error.message);
    status = kt_writer_add(writer, placing->layers, placing->n_layers * sizeof(*placing->layers), &error);
    if (status == KT_OK)
        status = kt_writer_add(writer, placing->masks, size, &error);
    if (status == KT_OK)
        status = kt_writer_finish(writer, &error);
    else
        kt_writer_cancel(writer);
    kt_signals_temporary(NULL);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_error(placing->cli, "output %s", error.message);
}

static void add_moves(const struct placing *placing, struct kt_output *output)
{
    struct kt_table *table = kt_output_table(output, "rows", move_columns, COUNT(move_columns));
    for (uint32_t m = 0; m < placing->n_moves; m++) {
        const struct kt_place_move *move = &placing->moves[m];
        const uint64_t *counts = placing->counts + (size_t)move->layer * placing->n_experts;
        kt_table_row(table);
        kt_table_uint(table, "layer", placing->layers[move->layer]);
        kt_table_uint(table, "leaves", move->leaves);
        kt_table_uint(table, "comes", move->comes);
        kt_table_uint(table, "leaves_count", counts[move->leaves]);
        kt_table_uint(table, "comes_count", counts[move->comes]);
    }
}

static void add_layers(const struct placing *placing, struct kt_output *output, const char *name)
{
    struct kt_table *table = kt_output_table(output, name, layer_columns, COUNT(layer_columns));
    for (uint32_t l = 0; l < placing->n_layers; l++) {
        uint64_t all, on_gpu;
        double share = find_share(placing, l, l + 1, &all, &on_gpu);
        kt_table_row(table);
        kt_table_uint(table, "layer", placing->layers[l]);
        kt_table_uint(table, "n_experts", placing->n_experts);
        kt_table_uint(table, "n_on_gpu", count_masks(placing, l, l + 1));
        if (!placing->stats)
            continue;
        kt_table_uint(table, "count", all);
        kt_table_uint(table, "count_on_gpu", on_gpu);
        if (all)
            kt_table_real(table, "share_on_gpu", share);
    }
}

static int show(const struct placing *placing)
{
    static const char *const names[] = {"uniform", "frequency", "front-loading", "random"};
    bool updated = placing->args.update != NULL;
    struct kt_output *output = kt_output_create(placing->cli, updated ? "kt.place.moves" : "kt.place", 1);
    uint64_t all, on_gpu;
    double share = find_share(placing, 0, placing->n_layers, &all, &on_gpu);
    if (!updated)
        kt_output_fact_text(output, "placement", "placement", names[placing->args.placement]);
    kt_output_fact_uint(output, "n_all", "experts", (uint64_t)placing->n_layers * placing->n_experts);
    kt_output_fact_uint(output, "n_on_gpu", "on the GPU", count_masks(placing, 0, placing->n_layers));
    if (updated)
        kt_output_fact_uint(output, "n_moves", "moves", placing->n_moves);
    if (updated && all)
        kt_output_fact_real(output, "share_before", "share of the use before", placing->share_before);
    if (all)
        kt_output_fact_real(output, "share_on_gpu", "share of the use on the GPU", share);
    if (updated)
        add_moves(placing, output);
    add_layers(placing, output, updated ? "layers" : "rows");
    return kt_output_finish(output, KT_EXIT_OK);
}

/* ---- the command line ----------------------------------------------------------------------- */

static int check_args(struct kt_cli *cli, struct args *args)
{
    bool frequency = args->placement == KT_PLACE_FREQUENCY;
    int n_budgets = (args->gpu_experts != NOT_GIVEN) + (args->total != NOT_GIVEN) + (args->ratio >= 0);
    if (args->update) {
        if (args->placement >= 0 || n_budgets > 0 || args->model || args->shape)
            return kt_cli_usage(cli, "--update keeps the placement that the masks have: no --placement, "
                                     "--gpu-experts, --ratio, --total, --model or --shape beside it");
        if (args->max_moves == NOT_GIVEN || cli->n_arguments == 0)
            return kt_cli_usage(cli, "--update needs --max-moves and a FILE of statistics");
        return KT_EXIT_OK;
    }
    if (args->max_moves != NOT_GIVEN)
        return kt_cli_usage(cli, "--max-moves goes with --update");
    if (n_budgets != 1)
        return kt_cli_usage(cli, "one budget is needed: --gpu-experts, --ratio or --total");
    if (args->model && args->shape)
        return kt_cli_usage(cli, "--model and --shape both say how many experts there are");
    if (!args->model && !args->shape && cli->n_arguments == 0)
        return kt_cli_usage(cli, "a FILE of statistics, --model or --shape must say what experts there are");
    if (frequency && cli->n_arguments == 0)
        return kt_cli_usage(cli, "--placement frequency needs a FILE of statistics");
    if (args->placement < 0)
        args->placement = cli->n_arguments > 0 ? KT_PLACE_FREQUENCY : KT_PLACE_UNIFORM;
    return KT_EXIT_OK;
}

static int run(struct placing *placing)
{
    const struct args *args = &placing->args;
    struct kt_cli *cli = placing->cli;
    int code = KT_EXIT_OK;
    if (cli->n_arguments > 0)
        code = kt_stats_read(cli, cli->arguments, cli->n_arguments, &placing->stats);
    if (code == KT_EXIT_OK && args->update)
        code = take_masks(placing);
    else if (code == KT_EXIT_OK && args->model)
        code = take_model(placing);
    else if (code == KT_EXIT_OK && args->shape)
        code = take_shape(placing);
    if (code == KT_EXIT_OK)
        code = take_counts(placing);
    if (code == KT_EXIT_OK)
        code = args->update ? update(placing) : place(placing);
    if (code == KT_EXIT_OK)
        code = write_masks(placing);
    return code == KT_EXIT_OK ? show(placing) : code;
}

static const struct kt_cli_option options[] =
    {OPTION_CHOICE("placement", 'p', placement, "uniform|frequency|front-loading|random", "NAME",
                   "uniform, frequency, front-loading or random (default: frequency with statistics, or "
                   "uniform)"),
     OPTION_UINT("gpu-experts", 'g', gpu_experts, 0, MOST_ROWS, "N",
                 "budget: N experts times the number of layers"),
     OPTION_REAL("ratio", 0, ratio, "X", "budget: this fraction of all experts, 0 to 1, rounded down"),
     OPTION_UINT("total", 0, total, 0, UINT32_MAX, "N", "budget: N experts in all layers together"),
     OPTION_UINT("seed", 0, seed, 0, INT64_MAX, "N", "seed of random (default: 42)"),
     OPTION_TEXT("model", 'm', model, "MODEL",
                 "the MODEL, if it is one safetensors file (default: the layers of the statistics)"),
     OPTION_TEXT("shape", 0, shape, "L,E", "layers with experts, and experts per layer, instead of a model"),
     OPTION_TEXT("update", 'u', update, "MASKS", "adapt these masks by swapping experts"),
     OPTION_UINT("max-moves", 0, max_moves, 0, UINT32_MAX, "N",
                 "with --update: maximum number of swaps, the largest gain first"),
     OPTION_TEXT("output", 'o', output, "FILE",
                 "write the masks to this safetensors file: masks U8 [layers][experts]"),
     {.name = NULL}};

const struct kt_cli_command kt_place_command =
    {.usage = "[MODEL] [FILE]... (--gpu-experts N | --ratio X | --total N) [OPTION]...\n"
              "FILE... --update MASKS --max-moves N [OPTION]...",
     .about =
         "Chooses the experts to put on a GPU, within a budget, and shows the fraction of recorded use on "
         "the GPU, based on the statistics in FILE... (added up). With --update, masks of an engine are "
         "adapted by a few swaps, which are listed.",
     .options = options,
     .arguments = "FILE",
     .max_arguments = 100000,
     .opens_checkpoint = true};

/* A folder, a GGUF file or a model's name in front is the model: files of statistics are safetensors files.
 * False after a message. */
static bool take_first(struct kt_cli *cli, struct args *args)
{
    char magic[4] = "";
    struct stat info;
    const char *path = cli->n_arguments > 0 ? cli->arguments[0] : NULL;
    if (args->model || !path)
        return true;
    if (!model_find_path(cli, &path))
        return false;
    cli->arguments[0] = (char *)path;
    if (stat(path, &info) != 0)
        return true;
    FILE *file = S_ISREG(info.st_mode) ? fopen(cli->arguments[0], "re") : NULL;
    bool is_gguf = file && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (file)
        fclose(file);
    if (!is_gguf && !S_ISDIR(info.st_mode))
        return true;
    args->model = cli->arguments[0];
    cli->arguments++;
    cli->n_arguments--;
    return true;
}

int kt_cmd_place(struct kt_cli *cli, int argc, char **argv)
{
    struct placing placing = {.cli = cli,
                              .args = {.gpu_experts = NOT_GIVEN,
                                       .total = NOT_GIVEN,
                                       .max_moves = NOT_GIVEN,
                                       .seed = 42,
                                       .ratio = -1,
                                       .placement = -1}};
    if (!kt_cli_parse(cli, &kt_place_command, argc, argv, &placing.args))
        return cli->exit_code;
    int code = take_first(cli, &placing.args) ? check_args(cli, &placing.args) : KT_EXIT_PROBLEM;
    if (code == KT_EXIT_OK)
        code = run(&placing);
    kt_stats_destroy(placing.stats);
    free(placing.layers);
    free(placing.counts);
    free(placing.masks);
    free(placing.moves);
    return code;
}
