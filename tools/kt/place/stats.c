/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - kt stats: how often each expert was asked for, and how unevenly. */
#include "tools/kt/place/stats.h"

#include "tools/kt/base/table.h"

struct args {
    const char *output;
    bool experts;
};

static const struct kt_column layer_columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"n_batches", "BATCHES", KT_COLUMN_UINT, 0, 0},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},
    {"n_used", "USED", KT_COLUMN_UINT, 0, 0},
    {"count", "COUNT", KT_COLUMN_UINT, 0, 0},
    {"computed_share", "ON CPU", KT_COLUMN_REAL, 3, 0},
    {"most_used", "MOST USED", KT_COLUMN_UINT, 0, 0},
    {"most_share", "ITS SHARE", KT_COLUMN_REAL, 3, 0},
    {"top_share", "TOP 10 %", KT_COLUMN_REAL, 3, 0},
    {"gini", "GINI", KT_COLUMN_REAL, 3, 0},
    {"entropy", "ENTROPY", KT_COLUMN_REAL, 3, 0},
    {"mean_weight", "WEIGHT", KT_COLUMN_REAL, 3, 0},
};

static const struct kt_column expert_columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},        {"expert", "EXPERT", KT_COLUMN_UINT, 0, 0},
    {"count", "COUNT", KT_COLUMN_UINT, 0, 0},        {"share", "SHARE", KT_COLUMN_REAL, 4, 0},
    {"computed", "ON CPU", KT_COLUMN_UINT, 0, 0},    {"weight_sum", "WEIGHT SUM", KT_COLUMN_REAL, 3, 0},
    {"mean_weight", "WEIGHT", KT_COLUMN_REAL, 3, 0},
};

int kt_stats_read(const struct kt_cli *cli, char *const *paths, int n, struct kt_stats **stats)
{
    struct kt_stats *sum = NULL, *next = NULL;
    struct kt_error error;
    int code = KT_EXIT_OK;
    for (int i = 0; i < n && code == KT_EXIT_OK; i++) {
        if (kt_stats_open(paths[i], i == 0 ? &sum : &next, &error) != KT_OK)
            code = kt_cli_fail(cli, &error);
        else if (i > 0 && kt_stats_add(sum, next, &error) != KT_OK)
            code = kt_cli_error(cli, "%s: %s", paths[i], error.message);
        kt_stats_destroy(next);
        next = NULL;
    }
    if (code == KT_EXIT_OK)
        *stats = sum;
    else
        kt_stats_destroy(sum);
    return code;
}

/* Sums over one layer's experts. */
struct sums {
    uint64_t count, computed;
    double weight;
};

static struct sums sum_layer(const struct kt_stats_info *info, uint32_t row)
{
    struct sums sums = {.count = 0};
    for (size_t i = (size_t)row * info->n_experts; i < ((size_t)row + 1) * info->n_experts; i++) {
        sums.count += info->counts[i];
        sums.computed += info->computed[i];
        sums.weight += info->weights[i];
    }
    return sums;
}

static int add_layer(const struct kt_cli *cli, struct kt_table *table, const struct kt_stats_info *info,
                     uint32_t row)
{
    const struct sums sums = sum_layer(info, row);
    struct kt_skew skew;
    struct kt_error error;
    if (kt_usage_skew(info->counts + (size_t)row * info->n_experts, info->n_experts, &skew, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_table_row(table);
    kt_table_uint(table, "layer", info->layers[row]);
    kt_table_uint(table, "n_batches", info->n_batches[row]);
    kt_table_uint(table, "n_tokens", info->n_tokens[row]);
    kt_table_uint(table, "n_experts", info->n_experts);
    kt_table_uint(table, "n_used", skew.n_used);
    kt_table_uint(table, "count", sums.count);
    if (sums.count == 0)
        return KT_EXIT_OK;
    kt_table_real(table, "computed_share", (double)sums.computed / (double)sums.count);
    kt_table_uint(table, "most_used", skew.most_used);
    kt_table_real(table, "most_share", skew.most_share);
    kt_table_real(table, "top_share", skew.top_share);
    kt_table_real(table, "gini", skew.gini);
    kt_table_real(table, "entropy", skew.entropy);
    kt_table_real(table, "mean_weight", sums.weight / (double)sums.count);
    return KT_EXIT_OK;
}

static void add_experts(struct kt_table *table, const struct kt_stats_info *info, uint32_t row)
{
    const struct sums sums = sum_layer(info, row);
    for (uint32_t e = 0; e < info->n_experts; e++) {
        size_t i = (size_t)row * info->n_experts + e;
        double count = (double)info->counts[i];
        kt_table_row(table);
        kt_table_uint(table, "layer", info->layers[row]);
        kt_table_uint(table, "expert", e);
        kt_table_uint(table, "count", info->counts[i]);
        if (sums.count != 0)
            kt_table_real(table, "share", count / (double)sums.count);
        kt_table_uint(table, "computed", info->computed[i]);
        kt_table_real(table, "weight_sum", info->weights[i]);
        if (info->counts[i] != 0)
            kt_table_real(table, "mean_weight", info->weights[i] / count);
    }
}

static int show(struct kt_cli *cli, const struct args *args, const struct kt_stats *stats)
{
    struct kt_stats_info info;
    int code = KT_EXIT_OK;
    kt_stats_info(stats, &info);
    struct kt_output *output = kt_output_create(cli, args->experts ? "kt.stats.experts" : "kt.stats", 1);
    kt_output_fact_uint(output, "n_layers", NULL, info.n_layers);
    kt_output_fact_uint(output, "n_files", NULL, (uint64_t)cli->n_arguments);
    struct kt_table *table = args->experts
                                 ? kt_output_table(output, "rows", expert_columns, COUNT(expert_columns))
                                 : kt_output_table(output, "rows", layer_columns, COUNT(layer_columns));
    for (uint32_t row = 0; row < info.n_layers && code == KT_EXIT_OK; row++) {
        if (args->experts)
            add_experts(table, &info, row);
        else
            code = add_layer(cli, table, &info, row);
    }
    if (code == KT_EXIT_OK)
        return kt_output_finish(output, KT_EXIT_OK);
    kt_output_free(output);
    return code;
}

static const struct kt_cli_option options[] = {OPTION_FLAG("experts", 0, experts, "show one row per expert"),
                                               OPTION_TEXT("output", 'o', output, "FILE",
                                                           "write the sum to this file of statistics"),
                                               {.name = NULL}};

const struct kt_cli_command kt_stats_command =
    {.usage = "FILE... [OPTION]...",
     .about = "Shows how often, and how unevenly, the experts of each layer were requested while a model "
              "ran: the share of the most used tenth of the experts, the Gini coefficient (0: all equal) "
              "and the entropy (1: all equal). Several files are added up.",
     .options = options,
     .arguments = "FILE",
     .min_arguments = 1,
     .max_arguments = 100000};

int kt_cmd_stats(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.output = NULL};
    struct kt_stats *stats;
    struct kt_error error;
    if (!kt_cli_parse(cli, &kt_stats_command, argc, argv, &args))
        return cli->exit_code;
    int code = kt_stats_read(cli, cli->arguments, cli->n_arguments, &stats);
    if (code != KT_EXIT_OK)
        return code;
    kt_signals_hold(true);
    if (args.output && kt_stats_save(stats, args.output, &error) != KT_OK)
        code = kt_cli_error(cli, "output %s", error.message);
    kt_signals_hold(false);
    if (code == KT_EXIT_OK)
        code = show(cli, &args, stats);
    kt_stats_destroy(stats);
    return code;
}
