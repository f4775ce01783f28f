/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - kt tune --show: what can be tuned, and what is. */
#include "tools/kt/bench/cache.h"
#include "tools/kt/base/table.h"
#include "tools/kt/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A small matrix, which every form of weights can hold. */
#define SIZE 256

static const struct kt_column tunable_columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"name", "TUNABLE", KT_COLUMN_TEXT, 0, 0},
    {"minimum", "FROM", KT_COLUMN_UINT, 0, 0},
    {"maximum", "TO", KT_COLUMN_UINT, 0, 0},
    {"bits", "BITS", KT_COLUMN_BOOL, 0, 0},
    {"what", "WHAT", KT_COLUMN_TEXT, 0, KT_COLUMN_LIST},
};

static const struct kt_column setting_columns[] = {
    {"section", "SECTION", KT_COLUMN_TEXT, 0, 0},
    {"key", "KEY", KT_COLUMN_TEXT, 0, 0},
    {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},
    {"origin", "FROM", KT_COLUMN_TEXT, 0, 0},
};

static void add_tunable(struct kt_table *table, const struct kt_backend_info *backend,
                        const struct kt_tunable_info *info)
{
    kt_table_row(table);
    kt_table_text(table, "backend", backend->name);
    kt_table_text(table, "level", backend->level);
    kt_table_text(table, "name", info->name);
    kt_table_uint(table, "minimum", info->minimum);
    kt_table_uint(table, "maximum", info->maximum);
    kt_table_bool(table, "bits", info->bits != 0);
    kt_table_text(table, "what", info->what);
}

/* A row for each tunable that attention of this plugin has. */
static void add_attention(struct kt_cli *cli, struct kt_table *table, struct kt_context *context,
                          const struct kt_backend_info *backend)
{
    const struct bench_heads heads = {.n_heads = 1, .kv_heads = 1, .key_size = 64, .value_size = 64};
    const struct bench_form *form;
    struct kt_tunable_info info;
    if (bench_form_choose(cli, "bf16", &form) != KT_EXIT_OK)
        return;
    struct bench_cache cache = {.cli = cli,
                                .context = context,
                                .shape = &heads,
                                .form = form,
                                .n_sequences = 1,
                                .n_tokens = 1,
                                .n_layers = 1};
    enum kt_status status = bench_cache_create(&cache, backend->name, NULL);
    for (uint32_t i = 0; status == KT_OK && kt_attention_tunable(cache.layers[0], i, &info, NULL) == KT_OK;
         i++)
        add_tunable(table, backend, &info);
    bench_cache_destroy(&cache);
}

/* A row for each tunable that a matrix of this backend has. */
static void add_tunables(struct kt_table *table, struct kt_context *context,
                         const struct kt_backend_info *backend)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct bench_source source;
    struct kt_linear *linear = NULL;
    struct kt_tunable_info info;
    params.rows = params.cols = SIZE;
    params.max_tokens = 1;
    params.backend = backend->name;
    if (bench_source_matrix(bench_source_usual(backend->formats), SIZE, SIZE, &source, NULL) != KT_OK)
        return;
    enum kt_status status = kt_linear_create(context, &params, &linear, NULL);
    if (status == KT_OK)
        status = kt_linear_load(linear, &source.experts->down, NULL, NULL);
    for (uint32_t i = 0; status == KT_OK && kt_linear_tunable(linear, i, &info, NULL) == KT_OK; i++)
        add_tunable(table, backend, &info);
    kt_linear_destroy(linear);
    bench_source_destroy(&source);
}

static void add_settings(struct kt_table *table, const struct kt_config *config)
{
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, NULL) != KT_OK ||
            strncmp(setting.section, "tuned.", strlen("tuned.")) != 0)
            continue;
        kt_table_row(table);
        kt_table_text(table, "section", setting.section);
        kt_table_text(table, "key", setting.key);
        kt_table_text(table, "value", setting.value);
        kt_table_text(table, "origin", setting.origin);
    }
}

int tune_show(struct kt_cli *cli)
{
    struct kt_config *config;
    struct kt_context *context;
    struct kt_context_info info;
    char *path = tune_file_path(cli);
    int code = path ? kt_cli_config(cli, &config) : KT_EXIT_PROBLEM;
    if (code != KT_EXIT_OK)
        return code;
    code = kt_cli_context(cli, &context);
    if (code == KT_EXIT_OK) {
        struct kt_output *output = kt_output_create(cli, "kt.tune.show", 1);
        kt_context_info(context, &info);
        kt_output_fact_text(output, "file", "file", path);
        kt_output_fact_text(output, "cpu", "CPU", info.cpu_model);
        kt_output_fact_text(output, "microcode", "microcode", info.microcode);
        struct kt_table *tunables = kt_output_table(output, "rows", tunable_columns, COUNT(tunable_columns));
        struct kt_table *settings =
            kt_output_table(output, "settings", setting_columns, COUNT(setting_columns));
        kt_table_title(settings, "Values in force for this CPU:");
        for (size_t i = 0; i < kt_context_backend_count(context); i++) {
            struct kt_backend_info backend;
            if (kt_context_backend(context, i, &backend, NULL) == KT_OK &&
                backend.state == KT_BACKEND_LOADED) {
                if (backend.takes_linears)
                    add_tunables(tunables, context, &backend);
                if (backend.takes_attention)
                    add_attention(cli, tunables, context, &backend);
            }
        }
        add_settings(settings, config);
        code = kt_output_finish(output, KT_EXIT_OK);
        kt_context_destroy(context);
    }
    kt_config_destroy(config);
    free(path);
    return code;
}
