/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - kt model info: all that is known of one model. */
#include "tools/kt/model/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct kt_column columns[] = {
    {"key", "OPTION", KT_COLUMN_TEXT, 0, 0},
    {"value", "VALUE", KT_COLUMN_TEXT, 0, 0},
    {"line", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
};

static bool is_own_key(const char *key)
{
    static const char *const keys[] = {REGISTRY_PATH, REGISTRY_ALIASES, REGISTRY_REPOSITORY, REGISTRY_HUB,
                                       REGISTRY_REVISION};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Keys that mean nothing to kt: misspelt, or somebody else's. */
static void warn_of_others(const struct kt_cli *cli, const struct registry *registry,
                           const struct registry_model *model)
{
    const char *names[MODEL_N_KEPT];
    for (size_t i = 0; i < MODEL_N_KEPT; i++)
        names[i] = model_kept[i].name;
    for (size_t i = 0; i < model->n_pairs; i++) {
        const struct registry_pair *pair = &model->pairs[i];
        if (is_own_key(pair->key) || model_find_kept(pair->key))
            continue;
        kt_cli_warn(cli, "%s:%u: [%s] %s: no such key, so it is left alone%s", registry->path, pair->line,
                    model->name, pair->key, kt_cli_hint(pair->key, names, MODEL_N_KEPT).text);
    }
}

static void add_names(struct kt_output *output, const struct registry *registry,
                      const struct registry_model *model)
{
    static const struct {
        const char *key, *name, *title;
    } facts[] = {{REGISTRY_ALIASES, "aliases", "further names"},
                 {REGISTRY_REPOSITORY, "repository", "repository"},
                 {REGISTRY_HUB, "hub", "hub"},
                 {REGISTRY_REVISION, "revision", "revision"}};
    kt_output_fact_text(output, "name", "name", model->name);
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        const char *value = registry_get(model, facts[i].key);
        if (value)
            kt_output_fact_text(output, facts[i].name, facts[i].title, value);
    }
    kt_output_fact_text(output, "registry", NULL, registry->path);
    kt_output_fact_uint(output, "registry_line", NULL, model->line);
}

static void add_look(struct kt_output *output, const char *path, const struct model_look *look)
{
    kt_output_fact_text(output, "path", "path", path);
    if (look->opens) {
        kt_output_fact_text(output, "file_format", "format", look->format);
        kt_output_fact_text(output, "architecture", "family", look->architecture);
        if (*look->title)
            kt_output_fact_text(output, "title", "its own name", look->title);
        kt_output_fact_bytes(output, "bytes", "size", look->size);
        kt_output_fact_uint(output, "n_files", "files", look->n_files);
        if (look->n_layers)
            kt_output_fact_uint(output, "n_layers", "layers", look->n_layers);
        kt_output_fact_uint(output, "n_moe_layers", "layers with experts", look->n_moe_layers);
    }
    if (*look->missing)
        kt_output_fact_text(output, "missing", "missing", look->missing);
    if (*look->message)
        kt_output_fact_text(output, "message", "why", look->message);
}

static void add_options(struct kt_output *output, const struct registry_model *model)
{
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; model && i < model->n_pairs; i++) {
        if (!model_find_kept(model->pairs[i].key))
            continue;
        kt_table_row(table);
        kt_table_text(table, "key", model->pairs[i].key);
        kt_table_text(table, "value", model->pairs[i].value);
        kt_table_uint(table, "line", model->pairs[i].line);
    }
}

int model_info(struct kt_cli *cli, const char *name)
{
    struct registry registry;
    struct model_look look = {.missing = "path"};
    int code = registry_read(cli, &registry);
    bool is_path = access(name, F_OK) == 0;
    const struct registry_model *model = NULL;
    if (code == KT_EXIT_OK) {
        model = is_path ? registry_find_path(&registry, name) : model_find(cli, &registry, name);
        code = is_path || model ? KT_EXIT_OK : KT_EXIT_PROBLEM;
    }
    if (code == KT_EXIT_OK) {
        const char *path = is_path ? name : registry_get(model, REGISTRY_PATH);
        struct kt_output *output = kt_output_create(cli, "kt.model.info", 1);
        if (path)
            model_look(cli, path, model ? registry_get(model, "experts") : NULL, true, &look);
        if (model) {
            warn_of_others(cli, &registry, model);
            add_names(output, &registry, model);
        }
        add_look(output, path ? path : "", &look);
        add_options(output, model);
        code = kt_output_finish(output, look.opens ? KT_EXIT_OK : KT_EXIT_PROBLEM);
    }
    registry_free(&registry);
    return code;
}
