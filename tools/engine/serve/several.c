/* SPDX-License-Identifier: Apache-2.0 */
/* several.c - the models of a command line. What kt model keeps with a name holds for that model alone, so
 * the options are read once for each, as if it were the only one. */
#include "tools/engine/serve/run.h"

#include <stdlib.h>
#include <string.h>

void kt_run_copy(const struct kt_cli *cli, struct kt_cli *copy)
{
    *copy = *cli;
    copy->words = NULL; /* the command's own */
    copy->settings = NULL;
    copy->n_settings = 0;
    for (size_t i = 0; i < cli->n_settings; i++)
        kt_cli_set(copy, "%s", cli->settings[i]);
}

/* Reads the options with one of the arguments. */
static int read_model(const struct kt_cli *before, char **words, size_t n_words, char *argument,
                      struct kt_run_model *model)
{
    char **line = kt_cli_alloc(before, n_words + 2, sizeof(*line)); /* texts of options stay in words */
    memcpy(line, words, n_words * sizeof(*line));
    line[n_words] = argument;
    kt_run_copy(before, &model->own);
    model->cli = &model->own;
    *model->args = kt_run_defaults;
    bool runs = kt_cli_parse(model->cli, &kt_run_command, (int)n_words + 1, line, model->args);
    model->cli->arguments = kt_cli_alloc(before, 2, sizeof(*line));
    model->cli->arguments[0] = line[n_words]; /* the path, if it was a name */
    free(line);
    return runs ? KT_EXIT_OK : model->cli->exit_code;
}

static int check_names(const struct kt_cli *cli, const struct kt_models *models,
                       const struct kt_served *model)
{
    struct kt_served *other = NULL;
    for (size_t i = 0; i < model->n_names; i++) {
        const char *name = kt_models_find(models, model->names[i], strlen(model->names[i]), &other);
        if (name && other != model)
            return kt_cli_usage(cli,
                                "two models have the name '%s'; 'kt model add PATH --name NAME' gives one of "
                                "them another name",
                                name);
    }
    return KT_EXIT_OK;
}

/* Options that name a part of one model. */
static int check_several(const struct kt_cli *cli, const struct kt_run_args *args)
{
    static const char *const names[] = {"served-model-name", "experts"};
    if (args->model || cli->named_model)
        return kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[1]);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (kt_cli_given(cli, names[i]))
            return kt_cli_usage(cli,
                                "--%s is for one model, but there are %d; 'kt model edit' keeps it with one",
                                names[i], cli->n_arguments);
    return KT_EXIT_OK;
}

int kt_run_models(struct kt_cli *cli, struct kt_run_args *args, const struct kt_cli *before, char **words,
                  struct kt_server *server)
{
    const size_t n = (size_t)cli->n_arguments, n_words = (size_t)(cli->arguments - words);
    struct kt_models *models = &server->models;
    int code = n > 1 ? check_several(cli, args) : KT_EXIT_OK;
    if (code != KT_EXIT_OK)
        return code;
    models->list = kt_cli_alloc(cli, n, sizeof(*models->list));
    while (code == KT_EXIT_OK && models->n < n) {
        struct kt_served *model = &models->list[models->n];
        struct kt_run_model *from = model->from = kt_cli_alloc(cli, 1, sizeof(*model->from));
        model->server = server;
        from->cli = cli;
        from->args = args;
        if (models->n++ > 0) {
            from->args = kt_cli_alloc(cli, 1, sizeof(*args));
            code = read_model(before, words, n_words, cli->arguments[models->n - 1], from);
        }
        if (code == KT_EXIT_OK)
            code = kt_run_name(from->cli, from->args, model);
        if (code == KT_EXIT_OK)
            code = check_names(cli, models, model);
    }
    return code;
}

void kt_run_forget(struct kt_server *server)
{
    for (size_t i = 0; i < server->models.n; i++) {
        struct kt_served *model = &server->models.list[i];
        struct kt_run_model *from = model->from;
        if (i > 0) {
            free(from->own.arguments);
            kt_cli_free(&from->own);
            free(from->args);
        }
        free(from);
        for (size_t j = 0; j < model->n_names; j++)
            free(model->names[j]);
        free(model->names);
    }
    free(server->models.list);
}
