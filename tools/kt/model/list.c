/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - kt model list, path: the models that have names, and those that are known. */
#include "tools/kt/model/command.h"

#include <stdio.h>
#include <string.h>

static const struct kt_column columns[] = {
    {"name", "NAME", KT_COLUMN_TEXT, 0, 0},
    {"aliases", "ALIASES", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"architecture", "FAMILY", KT_COLUMN_TEXT, 0, 0},
    {"format", "FORMAT", KT_COLUMN_TEXT, 0, 0},
    {"bytes", "SIZE", KT_COLUMN_BYTES, 0, 0},
    {"missing", "MISSING", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"path", "PATH", KT_COLUMN_TEXT, 0, 0},
    {"repository", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"message", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

static const struct kt_column known_columns[] = {
    {"name", "NAME", KT_COLUMN_TEXT, 0, 0},
    {"aliases", "ALIASES", KT_COLUMN_TEXT, 0, 0},
    {"format", "FORMAT", KT_COLUMN_TEXT, 0, 0},
    {"repository", "REPOSITORY", KT_COLUMN_TEXT, 0, 0},
    {"modelscope", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"registered", "HERE AS", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
};

static void set_text(struct kt_table *table, const char *name, const char *value)
{
    if (value && *value)
        kt_table_text(table, name, value);
}

struct kt_table *model_table(struct kt_output *output)
{
    return kt_output_table(output, "rows", columns, COUNT(columns));
}

void model_row(struct kt_cli *cli, struct kt_table *table, const struct registry_model *model)
{
    const char *path = registry_get(model, REGISTRY_PATH);
    struct model_look look = {.missing = "path"};
    if (path)
        model_look(cli, path, registry_get(model, "experts"), false, &look);
    kt_table_row(table);
    kt_table_text(table, "name", model->name);
    set_text(table, "aliases", registry_get(model, REGISTRY_ALIASES));
    set_text(table, "architecture", look.architecture);
    set_text(table, "format", look.format);
    if (look.opens)
        kt_table_uint(table, "bytes", look.size);
    set_text(table, "missing", look.missing);
    set_text(table, "path", path);
    set_text(table, "repository", registry_get(model, REGISTRY_REPOSITORY));
    set_text(table, "message", look.message);
}

int model_list(struct kt_cli *cli)
{
    struct registry registry;
    int code = registry_read(cli, &registry);
    if (code == KT_EXIT_OK) {
        struct kt_output *output = kt_output_create(cli, "kt.model.list", 1);
        struct kt_table *table = model_table(output);
        kt_progress_start(cli, "reading headers");
        for (size_t i = 0; i < registry.n_models; i++) {
            kt_progress_update(i, registry.n_models);
            model_row(cli, table, &registry.models[i]);
        }
        kt_progress_stop();
        if (registry.n_models == 0)
            kt_output_note(
                output,
                "No model has a name yet: 'kt model scan' finds checkpoints, 'kt model add' and 'kt model pull' give them one.");
        code = kt_output_finish(output, KT_EXIT_OK);
    }
    registry_free(&registry);
    return code;
}

int model_list_known(struct kt_cli *cli)
{
    struct registry known, own = {.path = NULL};
    int code = registry_read_known(cli, &known);
    if (code == KT_EXIT_OK && known.n_models == 0)
        code = kt_cli_error(cli, "%s is not there, or empty; make install puts it there", known.path);
    if (code == KT_EXIT_OK)
        code = registry_read(cli, &own);
    if (code == KT_EXIT_OK) {
        struct kt_output *output = kt_output_create(cli, "kt.model.known", 1);
        struct kt_table *table = kt_output_table(output, "rows", known_columns, COUNT(known_columns));
        for (size_t i = 0; i < known.n_models; i++) {
            const struct registry_model *model = &known.models[i];
            const char *repository = registry_get(model, REGISTRY_REPOSITORY);
            const struct registry_model *here = repository ? registry_find(&own, repository) : NULL;
            kt_table_row(table);
            kt_table_text(table, "name", model->name);
            set_text(table, "aliases", registry_get(model, REGISTRY_ALIASES));
            set_text(table, "format", registry_get(model, REGISTRY_FORMAT));
            set_text(table, "repository", repository);
            set_text(table, "modelscope", registry_get(model, REGISTRY_MODELSCOPE));
            set_text(table, "registered", here ? here->name : NULL);
        }
        code = kt_output_finish(output, KT_EXIT_OK);
    }
    registry_free(&known);
    registry_free(&own);
    return code;
}

static bool print_word(void *data, const char *word)
{
    (void)data;
    puts(word);
    return true;
}

int model_list_names(const struct kt_cli *cli)
{
    struct registry registry;
    int code = registry_read(cli, &registry);
    for (size_t i = 0; i < registry.n_models && code == KT_EXIT_OK; i++) {
        puts(registry.models[i].name);
        (void)registry_words(registry_get(&registry.models[i], REGISTRY_ALIASES), print_word, NULL);
    }
    registry_free(&registry);
    return code;
}

int model_path(const struct kt_cli *cli, const char *name)
{
    struct registry registry;
    int code = registry_read(cli, &registry);
    const struct registry_model *model = code == KT_EXIT_OK ? model_find(cli, &registry, name) : NULL;
    const char *path = model ? registry_get(model, REGISTRY_PATH) : NULL;
    if (path)
        puts(path);
    else if (model)
        kt_cli_error(cli, "%s:%u: the model %s has no path", registry.path, model->line, model->name);
    registry_free(&registry);
    return path ? KT_EXIT_OK : KT_EXIT_PROBLEM;
}
