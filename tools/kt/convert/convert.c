/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - kt convert: packs the experts of a checkpoint into a store, layer by layer. Its linears are in
 * linears.c. */
#include "tools/kt/convert/convert.h"
#include "tools/kt/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const struct kt_column columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},          {"types", "TYPES", KT_COLUMN_TEXT, 0, 0},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},    {"source_bytes", "SOURCE", KT_COLUMN_BYTES, 0, 0},
    {"packed_bytes", "PACKED", KT_COLUMN_BYTES, 0, 0}, {"seconds", "SECONDS", KT_COLUMN_REAL, 2, 0},
    {"source_gbps", "GB/s", KT_COLUMN_REAL, 2, 0},     {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
};

/* ---- the folder ----------------------------------------------------------------------------- */

/* Is it the name of a store's file, whole or being written? */
static bool is_part(const char *name)
{
    const char *own = name + (*name == '.');
    return strncmp(own, "layer-", 6) == 0 || strncmp(own, "linear-", 7) == 0;
}

/* Checks that the folder holds a store or nothing, and counts the files that it may hold. */
static int look_inside(const struct kt_cli *cli, const char *folder, size_t *n_files)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int code = KT_EXIT_OK;

    if (!dir)
        return kt_cli_error(cli, "%s: cannot be read as a folder: %s", folder, strerror(errno));
    while ((entry = readdir(dir)) && code == KT_EXIT_OK) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!is_part(entry->d_name))
            code = kt_cli_error(cli, "%s: holds '%s', which is not a part of a store: choose another folder",
                                folder, entry->d_name);
        *n_files += entry->d_name[0] != '.';
    }
    closedir(dir);
    return code;
}

/* Locks the folder until the command ends: one run at a time. */
static int lock_folder(const struct kt_cli *cli, const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kt_cli_error(cli, "%s: cannot be opened as a folder: %s", folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return KT_EXIT_OK; /* a file system without locks: files are still whole */
    return kt_cli_error(cli, "%s: another kt convert is writing into it", folder);
}

/* Is the store of the checkpoint that is converted? One that is open is of one checkpoint. */
static int compare_source(const struct kt_conversion *conversion)
{
    struct kt_stored_linear_info linear;
    struct kt_moe_info moe;
    const char *source = NULL;
    uint64_t layer;
    if (kt_checkpoint_moe_layer(conversion->store, 0, &layer, NULL) == KT_OK &&
        kt_checkpoint_moe(conversion->store, layer, &moe, NULL) == KT_OK)
        source = moe.stored_source;
    else if (kt_checkpoint_linear(conversion->store, 0, &linear, NULL) == KT_OK)
        source = linear.stored_source;
    if (!source || strcmp(source, conversion->source) == 0)
        return KT_EXIT_OK;
    return kt_cli_error(conversion->cli,
                        "%s: was packed from another checkpoint (fingerprint %s, of %s it is %s): choose "
                        "another folder",
                        conversion->args->output, source, conversion->args->input, conversion->source);
}

/* Makes the folder, or opens the store that it holds. */
static int open_folder(struct kt_conversion *conversion)
{
    struct kt_cli *cli = conversion->cli;
    const char *folder = conversion->args->output;
    size_t n_files = 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return kt_cli_error(cli, "%s: cannot be made: %s", folder, strerror(errno));
    int code = lock_folder(cli, folder);
    if (code == KT_EXIT_OK)
        code = look_inside(cli, folder, &n_files);
    if (code != KT_EXIT_OK || n_files == 0)
        return code;
    if (!conversion->args->resume)
        return kt_cli_error(cli,
                            "%s: already contains a store; continue it with --resume, or choose another "
                            "folder",
                            folder);
    code = kt_cli_checkpoint(cli, folder, &conversion->store);
    if (code == KT_EXIT_OK)
        return compare_source(conversion);
    kt_cli_note(cli, "remove the file that is named; --resume then makes it again");
    return code;
}

/* Was the layer stored in the same way as it would be now? */
static int compare_stored(const struct kt_conversion *conversion, const struct kt_moe_info *moe,
                          const struct kt_moe_info *old, const struct kt_plan *plan)
{
    const char *folder = conversion->args->output;
    if (strcmp(old->stored_form, plan->form) != 0)
        return kt_cli_error(conversion->cli,
                            "%s: layer %" PRIu64 " is stored as %s, asked for is %s: choose another "
                            "folder",
                            folder, moe->layer, old->stored_form, plan->form);
    if (old->n_experts != moe->n_experts || old->top_k != (moe->top_k ? moe->top_k : 1) ||
        old->activation != moe->activation || old->limit != moe->limit || old->alpha != moe->alpha)
        return kt_cli_error(conversion->cli,
                            "%s: layer %" PRIu64 " has %" PRIu32 " experts, top_k %" PRIu32
                            " and activation %s, the checkpoint now %" PRIu32 ", %" PRIu32
                            " and %s: choose another folder",
                            folder, moe->layer, old->n_experts, old->top_k,
                            kt_activation_name(old->activation), moe->n_experts, moe->top_k,
                            kt_activation_name(moe->activation));
    return KT_EXIT_OK;
}

/* Is the layer in the folder already, and intact? A different layer of this number is an error. */
static int find_stored(const struct kt_conversion *conversion, const struct kt_moe_info *moe,
                       const struct kt_plan *plan, bool *stored)
{
    struct kt_moe_info old;
    struct kt_error error;
    *stored = false;
    if (!conversion->store || kt_checkpoint_moe(conversion->store, moe->layer, &old, NULL) != KT_OK)
        return KT_EXIT_OK;
    int code = compare_stored(conversion, moe, &old, plan);
    if (code != KT_EXIT_OK)
        return code;
    *stored = kt_checkpoint_verify(conversion->store, moe->layer, &error) == KT_OK;
    if (!*stored)
        kt_cli_warn(conversion->cli, "%s; it is made again", error.message);
    return KT_EXIT_OK;
}

/* ---- layers --------------------------------------------------------------------------------- */

static int make_layer(const struct kt_conversion *conversion, const struct kt_moe_info *moe,
                      struct kt_layer **layer, struct kt_plan *plan)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_error error;
    char name[32];
    snprintf(name, sizeof(name), "layer %" PRIu64, moe->layer);
    params.name = name;
    params.backend = conversion->backend;
    params.max_tokens = 1; /* storing multiplies nothing */
    params.stored = 1;
    if (kt_checkpoint_layer_params(conversion->input, moe->layer, &params, &error) != KT_OK)
        return kt_cli_fail(conversion->cli, &error);
    if (kt_layer_create(conversion->context, &params, layer, &error) != KT_OK)
        return kt_cli_fail(conversion->cli, &error);
    *plan = (struct kt_plan){.n_nodes = 0};
    double start = kt_cli_now();
    enum kt_status status = kt_layer_plan_checkpoint(*layer, conversion->input, moe->layer, plan, &error);
    kt_verbose_time(conversion->cli, "plan", start, "%s", name);
    if (status == KT_OK && !plan->fallback && *plan->form)
        return KT_EXIT_OK;
    kt_layer_destroy(*layer);
    if (status == KT_OK && !plan->fallback)
        return kt_cli_error(conversion->cli,
                            "%s: weights packed by backend %s cannot be stored; use the checkpoint "
                            "directly, or another method",
                            name, conversion->backend);
    bool refused = false;
    for (uint32_t c = 0; c < plan->n_candidates; c++)
        refused |= strcmp(plan->candidate[c].backend, conversion->backend) == 0;
    /* Then a warning has said why, unless core.strict makes an error of it. */
    if (refused && (status == KT_OK || !strstr(error.message, "core.strict")))
        return kt_cli_error(conversion->cli,
                            "%s: not supported by backend %s; choose another one, or other layers with "
                            "--layers",
                            name, conversion->backend);
    return kt_cli_fail(conversion->cli, &error);
}

/* The name of a linear's file is the library's affair; it is the newest that is being written, since there is
 * one run at a time. */
static void watch(struct kt_conversion *conversion)
{
    const char *folder = conversion->args->output;
    struct timespec newest = {0};
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    conversion->watched = true;
    while (dir && (entry = readdir(dir))) {
        struct stat file;
        if (entry->d_name[0] != '.' || !is_part(entry->d_name) ||
            fstatat(dirfd(dir), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
            file.st_mtim.tv_sec < newest.tv_sec ||
            (file.st_mtim.tv_sec == newest.tv_sec && file.st_mtim.tv_nsec < newest.tv_nsec))
            continue;
        newest = file.st_mtim;
        char *path = kt_cli_format(conversion->cli, "%s/%s", folder, entry->d_name);
        kt_signals_temporary(path);
        free(path);
    }
    if (dir)
        closedir(dir);
}

void kt_convert_unwatch(struct kt_conversion *conversion)
{
    kt_signals_temporary(NULL);
    conversion->watched = false;
}

void kt_convert_progress(void *data, uint64_t done, uint64_t total)
{
    struct kt_conversion *conversion = data;
    (void)total;
    if (!conversion->watched)
        watch(conversion);
    kt_progress_bytes(conversion->before + done, conversion->total);
}

static void add_row(struct kt_conversion *conversion, const struct kt_moe_info *moe, uint64_t packed,
                    double seconds, bool kept)
{
    struct kt_table *table = conversion->table;
    char types[64];
    conversion->n_rows++;
    kt_table_row(table);
    kt_table_uint(table, "layer", moe->layer);
    kt_table_text(table, "types", kt_model_types(moe, types, sizeof(types)));
    kt_table_uint(table, "n_experts", moe->n_experts);
    kt_table_uint(table, "source_bytes", moe->size);
    kt_table_uint(table, "packed_bytes", packed);
    kt_table_text(table, "state", kept ? "kept" : "stored");
    if (kept)
        return;
    kt_table_real(table, "seconds", seconds);
    kt_table_real(table, "source_gbps", (double)moe->size / seconds / 1e9);
}

static int store_layer(struct kt_conversion *conversion, struct kt_layer *layer,
                       const struct kt_moe_info *moe)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_error error;
    params.folder = conversion->args->output;
    params.progress = kt_convert_progress;
    params.data = conversion;
    double start = kt_cli_now();
    char *path = kt_cli_format(conversion->cli, "%s/.layer-%05" PRIu64 ".part", params.folder, moe->layer);
    kt_signals_temporary(path);
    free(path);
    conversion->watched = true;
    enum kt_status status = kt_layer_store(layer, conversion->input, moe->layer, &params, &error);
    kt_convert_unwatch(conversion);
    if (status == KT_OK) {
        kt_verbose_time(conversion->cli, "store", start, "layer %" PRIu64, moe->layer);
        return KT_EXIT_OK;
    }
    return kt_cli_fail(conversion->cli, &error);
}

static int convert_layer(struct kt_conversion *conversion, uint64_t number)
{
    struct kt_cli *cli = conversion->cli;
    struct kt_plan *plan = kt_cli_alloc(cli, 1, sizeof(*plan));
    struct kt_moe_info moe;
    struct kt_error error;
    struct kt_layer *layer;
    bool stored = false;
    if (kt_checkpoint_moe(conversion->input, number, &moe, &error) != KT_OK) {
        free(plan);
        return kt_cli_fail(cli, &error);
    }
    int code = make_layer(conversion, &moe, &layer, plan);
    if (code == KT_EXIT_OK) {
        if (plan->weight_size / moe.n_experts > conversion->largest)
            conversion->largest = plan->weight_size / moe.n_experts;
        code = find_stored(conversion, &moe, plan, &stored);
        double start = kt_cli_now();
        if (code == KT_EXIT_OK && !stored)
            code = store_layer(conversion, layer, &moe);
        if (code == KT_EXIT_OK)
            add_row(conversion, &moe, plan->weight_size, kt_cli_now() - start, stored);
        conversion->before += plan->weight_size;
        kt_layer_destroy(layer);
    }
    free(plan);
    return code;
}

/* Bytes of all layers, for the progress line: exact except for padding with several nodes. */
static int sum_up(struct kt_conversion *conversion, const uint64_t *layers, size_t n)
{
    struct kt_plan *plan = kt_cli_alloc(conversion->cli, 1, sizeof(*plan));
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++) {
        struct kt_moe_info moe;
        struct kt_layer *layer;
        if (kt_checkpoint_moe(conversion->input, layers[i], &moe, NULL) != KT_OK)
            continue;
        if (*moe.stored_form) {
            code = kt_cli_error(conversion->cli, "%s: is packed already; convert the original checkpoint",
                                conversion->args->input);
            break;
        }
        code = make_layer(conversion, &moe, &layer, plan);
        if (code == KT_EXIT_OK) {
            conversion->total += plan->weight_size;
            kt_layer_destroy(layer);
        }
    }
    free(plan);
    return code;
}

static void add_facts(const struct kt_conversion *conversion, struct kt_output *output)
{
    struct kt_context_info info;
    kt_context_info(conversion->context, &info);
    kt_output_fact_text(output, "input", "input", conversion->args->input);
    kt_output_fact_text(output, "output", "output", conversion->args->output);
    kt_output_fact_text(output, "backend", "backend", conversion->backend);
    kt_output_fact_text(output, "fingerprint", "fingerprint", conversion->source);
    kt_output_fact_uint(output, "n_threads", "threads", info.n_threads);
    kt_output_fact_bytes(output, "memory_bytes",
                         conversion->args->no_experts ? NULL : "memory for packed experts",
                         conversion->largest * info.n_threads);
    kt_output_fact_bytes(output, "linear_memory_bytes",
                         conversion->n_linears ? "memory for a packed linear" : NULL,
                         conversion->largest_linear);
}

static int convert_all(struct kt_conversion *conversion, const uint64_t *layers, size_t n)
{
    struct kt_output *output = kt_output_create(conversion->cli, "kt.convert", 1);
    int code = KT_EXIT_OK;
    conversion->table = kt_output_table(output, "rows", columns, COUNT(columns));
    kt_progress_start(conversion->cli, conversion->args->output);
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++)
        code = convert_layer(conversion, layers[i]);
    if (code == KT_EXIT_OK)
        code = kt_convert_linears(conversion);
    kt_progress_stop();
    add_facts(conversion, output);
    kt_convert_linears_table(conversion, output);
    if (conversion->n_rows > 0 || conversion->n_linears > 0)
        return kt_output_finish(output, code);
    kt_output_free(output);
    return code;
}

/* The layers that are asked for. A model without experts may have linears. */
static int list_layers(const struct kt_conversion *conversion, uint64_t **layers, size_t *n)
{
    const struct kt_convert_args *args = conversion->args;
    struct kt_checkpoint_info info;
    kt_checkpoint_info(conversion->input, &info);
    *layers = NULL;
    *n = 0;
    if (args->linears && info.n_moe_layers == 0 && !args->layers)
        return KT_EXIT_OK;
    return kt_model_layers(conversion->cli, conversion->input, "layers", args->layers, layers, n);
}

static int convert(struct kt_conversion *conversion)
{
    const struct kt_convert_args *args = conversion->args;
    bool every = !args->layers || strcmp(args->layers, "all") == 0;
    struct kt_error error;
    uint64_t *layers;
    size_t n, n_stored;
    int code = list_layers(conversion, &layers, &n);
    if (code != KT_EXIT_OK)
        return code;
    n_stored = args->no_experts ? 0 : n;
    if (kt_checkpoint_fingerprint(conversion->input, conversion->source, &error) != KT_OK)
        code = kt_cli_fail(conversion->cli, &error);
    if (code == KT_EXIT_OK)
        code = sum_up(conversion, layers, n_stored);
    if (code == KT_EXIT_OK && args->linears)
        code = kt_convert_linears_plan(conversion, every ? NULL : layers, n);
    if (code == KT_EXIT_OK)
        code = open_folder(conversion);
    if (code == KT_EXIT_OK)
        code = convert_all(conversion, layers, n_stored);
    kt_convert_linears_free(conversion);
    free(layers);
    return code;
}

#define args kt_convert_args /* as the rows of cli.h call it */
static const struct kt_cli_option options[] =
    {{KT_OPTION("model", 0, KT_CLI_TEXT, input, "MODEL", NULL), .hidden = true},
     {KT_OPTION("input", 'i', KT_CLI_TEXT, input, "MODEL", NULL), .hidden = true, .is_argument = true},
     {KT_OPTION("output", 'o', KT_CLI_TEXT, output, "DIR",
                "folder of the store; created if it does not "
                "exist"),
      .required = true},
     {KT_OPTION("method", 0, KT_CLI_TEXT, method, "NAME", NULL), .hidden = true},
     {KT_OPTION(
          "backend", 'b', KT_CLI_TEXT, method, "NAME",
          "AMXINT8, AMXINT4, BF16, MOE_INT8, MOE_INT4, RAWINT4, GPTQ_INT4, AWQ, MXFP4, FP8, FP8_PERCHANNEL, "
          "MXFP8 or LLAMAFILE, or the name of a backend"),
      .required = true},
     KT_CLI_LAYERS,
     OPTION_TEXT("linears", 0, linears, "NAMES",
                 "also store linears: all, or name patterns such as 'blk.*.attn_*,output'"),
     OPTION_FLAG("no-experts", 0, no_experts, "store only the linears"),
     OPTION_FLAG("resume", 0, resume, "continue an earlier run: keep the layers and linears that it stored"),
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = NULL}};
#undef args

const struct kt_cli_command kt_convert_command =
    {.usage = "MODEL --output DIR --backend NAME [OPTION]...",
     .about =
         "Packs the experts of a checkpoint for one backend and writes them to a folder, one file per "
         "layer; with --linears also its other matrices, one file each. Every other verb and the library "
         "accept such a store as a checkpoint; loading it maps the files, on any number of NUMA nodes.\n\n"
         "A file appears under its name when it is whole and durable: a run that was killed is gone on "
         "with by --resume. Memory is needed for one packed expert on each thread, and for one linear.",
     .options = options,
     .opens_checkpoint = true};

int kt_cmd_convert(struct kt_cli *cli, int argc, char **argv)
{
    struct kt_convert_args args = {.resume = false};
    struct kt_conversion conversion = {.cli = cli, .args = &args};
    if (!kt_cli_parse(cli, &kt_convert_command, argc, argv, &args))
        return cli->exit_code;
    /* errors name the option as it was written */
    const char *option = kt_cli_given(cli, "method") ? "method" : "backend";
    conversion.backend = kt_cli_backend(cli, option, args.method);
    if (!conversion.backend)
        return KT_EXIT_USAGE;
    if (args.no_experts && !args.linears)
        return kt_cli_usage(cli, "--no-experts needs --linears, which says what is stored then");
    if (strcmp(conversion.backend, "auto") == 0)
        return kt_cli_usage(cli, "--%s needs the name of a method or backend, not auto", option);
    int code = kt_cli_checkpoint(cli, args.input, &conversion.input);
    if (code != KT_EXIT_OK)
        return code;
    code = kt_cli_context(cli, &conversion.context);
    if (code == KT_EXIT_OK) {
        code = convert(&conversion);
        kt_context_destroy(conversion.context);
    }
    kt_checkpoint_close(conversion.store);
    kt_checkpoint_close(conversion.input);
    return code;
}
