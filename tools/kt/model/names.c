/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - MODEL of a command line may be a path, or a name that kt model knows. */
#define _GNU_SOURCE

#include "tools/kt/model/names.h"
#include "tools/kt/base/options.h"
#include "tools/kt/model/options.h"
#include "tools/kt/model/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* A name, or OWNER/NAME of a repository. */
static bool may_be_name(const char *text)
{
    const char *slash = strchr(text, '/');
    if (!slash)
        return registry_is_name(text);
    char *owner = strndup(text, (size_t)(slash - text));
    bool is_repository = owner && registry_is_name(owner) && registry_is_name(slash + 1);
    free(owner);
    return is_repository;
}

bool model_find_path(struct kt_cli *cli, const char **path)
{
    /* A path wins over a name, and needs no registry. */
    if (!is_missing(*path) || !may_be_name(*path) ||
        (!secure_getenv("XDG_DATA_HOME") && !secure_getenv("HOME")))
        return true;
    if (!cli->registry) {
        cli->registry = kt_cli_alloc(cli, 1, sizeof(*cli->registry));
        if (registry_read(cli, cli->registry) != KT_EXIT_OK)
            return false;
    }
    const struct registry_model *model = registry_find(cli->registry, *path);
    if (!model)
        return true;
    const char *registered = registry_get(model, REGISTRY_PATH);
    if (!registered) {
        kt_cli_error(cli, "%s:%u: the model %s has no path", cli->registry->path, model->line, model->name);
        return false;
    }
    cli->model = model;
    *path = registered;
    return true;
}

static void free_registry(struct kt_cli *cli)
{
    if (cli->registry)
        registry_free(cli->registry);
    free(cli->registry);
    cli->registry = NULL;
    cli->model = NULL;
}

/* ---- names on a command line ---------------------------------------------------------------- */

/* Arguments and options that are called MODEL may name a registered one. */
static bool find_models(struct kt_cli *cli, const struct kt_cli_command *command,
                        const struct kt_cli_rows *list, void *values)
{
    static const char word[] = "MODEL";
    for (int i = 0; i < list->n_own; i++) {
        const struct kt_cli_option *row = list->row[i];
        const char **path = (const char **)((char *)values + row->offset);
        if (row->type == KT_CLI_TEXT && row->argument && strcmp(row->argument, word) == 0 && *path &&
            !model_find_path(cli, path))
            return false;
    }
    if (!command->arguments || strncmp(command->arguments, word, sizeof(word) - 1) != 0 ||
        cli->n_arguments == 0)
        return true;
    const char *path = cli->arguments[0];
    if (!model_find_path(cli, &path))
        return false;
    cli->arguments[0] = (char *)path;
    return true;
}

/* Settings that are kept with a model come before those of the command line, which win. */
static void move_to_front(struct kt_cli *cli, size_t from)
{
    for (size_t i = from; i < cli->n_settings; i++) {
        const char *text = cli->settings[i];
        memmove(cli->settings + i - from + 1, cli->settings + i - from, from * sizeof(*cli->settings));
        cli->settings[i - from] = text;
    }
}

/* What is kept with the model stands for options that were not given. */
static bool take_kept(struct kt_cli *cli, const struct kt_cli_command *command,
                      const struct kt_cli_rows *list, void *values)
{
    for (size_t k = 0; cli->model && k < cli->model->n_pairs; k++) {
        const struct registry_pair *pair = &cli->model->pairs[k];
        bool is_taken =
            command->serves ? model_find_kept(pair->key) != NULL : strcmp(pair->key, "experts") == 0;
        for (int i = 0; i < list->n_own && is_taken; i++) {
            const struct kt_cli_option *row = list->row[i];
            size_t before = cli->n_settings;
            if (row->hidden || row->type == KT_CLI_FLAG || list->seen[i] || strcmp(row->name, pair->key) != 0)
                continue;
            if (!kt_cli_take(cli, command, row, pair->value, values)) {
                kt_cli_note(cli, "%s:%u has this --%s", cli->registry->path, pair->line, row->name);
                return false;
            }
            move_to_front(cli, before);
        }
    }
    return true;
}

static bool take(struct kt_cli *cli, const struct kt_cli_command *command, const struct kt_cli_rows *list,
                 void *values)
{
    return find_models(cli, command, list, values) && take_kept(cli, command, list, values);
}

/* ---- what may have been meant --------------------------------------------------------------- */

struct near {
    const struct kt_cli *cli;
    const char *word;
    char *text; /* "a, b"; NULL: nothing */
    unsigned n;
};

/* Names that hold the word, or that it holds, and those of a letter or two more or less. */
static bool is_near(const char *word, const char *name)
{
    return strcasestr(name, word) || (strlen(name) > 2 && strcasestr(word, name)) ||
           kt_nearest(word, &name, 1) != NULL;
}

static bool add_near(void *data, const char *name)
{
    struct near *near = data;
    if (near->n < 5 && is_near(near->word, name)) {
        char *longer =
            kt_cli_format(near->cli, "%s%s%s", near->text ? near->text : "", near->text ? ", " : "", name);
        free(near->text);
        near->text = longer;
        near->n++;
    }
    return near->n < 5;
}

static char *list_near(const struct kt_cli *cli, const char *word)
{
    struct near near = {.cli = cli, .word = word};
    for (size_t i = 0; cli->registry && i < cli->registry->n_models && near.n < 5; i++) {
        const struct registry_model *model = &cli->registry->models[i];
        if (add_near(&near, model->name))
            (void)registry_words(registry_get(model, REGISTRY_ALIASES), add_near, &near);
    }
    return near.text;
}

/* The known model that the word names, which then is in `known`. */
static const struct registry_model *find_known(const struct kt_cli *cli, const char *word,
                                               struct registry *known)
{
    return registry_read_known(cli, known) == KT_EXIT_OK ? registry_find(known, word) : NULL;
}

static int fail_model(const struct kt_cli *cli, const char *path, const struct kt_error *error)
{
    struct registry known = {.path = NULL};
    if (!is_missing(path))
        return kt_cli_fail(cli, error);
    if (cli->model)
        return kt_cli_error(cli,
                            "%s; %s:%u has this path for the model %s: 'kt model edit %s --path PATH' says "
                            "where it is now",
                            error->message, cli->registry->path, cli->model->line, cli->model->name,
                            cli->model->name);
    if (!may_be_name(path))
        return kt_cli_fail(cli, error);
    const struct registry_model *model = find_known(cli, path, &known);
    char *near = model ? NULL : list_near(cli, path);
    int code;
    if (model)
        code =
            kt_cli_error(cli, "%s: no such file, and the model %s is not here: 'kt model pull %s' fetches %s",
                         path, model->name, path, registry_get(model, REGISTRY_REPOSITORY));
    else
        code = kt_cli_error(cli,
                            "%s: no such file, folder or name of a model%s%s; 'kt model list' has "
                            "the names",
                            path, near ? "; near it: " : "", near ? near : "");
    free(near);
    registry_free(&known);
    return code;
}

const struct kt_cli_models kt_models = {take, fail_model, free_registry};
