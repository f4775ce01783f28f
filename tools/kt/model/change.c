/* SPDX-License-Identifier: Apache-2.0 */
/* change.c - kt model add, edit, remove: changes to the registry. */
#include "tools/kt/model/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int set_aliases(const struct kt_cli *cli, struct registry_change *change, const char *model,
                       const char *aliases)
{
    int code = registry_check_names(cli, &change->registry, model, aliases);
    return code == KT_EXIT_OK ? registry_set(cli, change, model, REGISTRY_ALIASES, aliases) : code;
}

/* A file that must be there, from the root on. */
static int set_path(const struct kt_cli *cli, struct registry_change *change, const char *model,
                    const char *key, const char *path)
{
    if (access(path, F_OK) != 0)
        return kt_cli_error(cli, "%s: no such file or folder", path);
    char *absolute = registry_absolute(cli, path);
    int code = registry_set(cli, change, model, key, absolute);
    free(absolute);
    return code;
}

static int set_option(struct kt_cli *cli, struct registry_change *change, const char *model,
                      const struct kt_cli_option *row, const char *text)
{
    bool is_template = strcmp(row->name, "chat-template") == 0;
    uint64_t bytes;
    if (!kt_cli_check(cli, row, text))
        return KT_EXIT_USAGE;
    if (strcmp(row->name, "kv-size") == 0 && !kt_cli_size(text, &bytes))
        return kt_cli_usage(cli, "--kv-size %s is not a size; 8G or 500M are", text);
    /* A template may be a built-in one. */
    if (strcmp(row->name, "experts") == 0 || (is_template && access(text, F_OK) == 0))
        return set_path(cli, change, model, row->name, text);
    return registry_set(cli, change, model, row->name, text);
}

static int set_options(struct kt_cli *cli, struct registry_change *change, const char *model,
                       const struct model_args *args)
{
    int code = args->aliases ? set_aliases(cli, change, model, args->aliases) : KT_EXIT_OK;
    for (size_t i = 0; i < MODEL_N_KEPT && code == KT_EXIT_OK; i++)
        if (args->kept[i])
            code = set_option(cli, change, model, &model_kept[i], args->kept[i]);
    return code;
}

/* Replaces the file, and shows the model. */
static int save(struct kt_cli *cli, struct registry_change *change, const char *model)
{
    int code = registry_save(cli, change);
    if (code != KT_EXIT_OK)
        return code;
    struct kt_output *output = kt_output_create(cli, "kt.model.list", 1);
    model_row(cli, model_table(output), registry_find(&change->registry, model));
    return kt_output_finish(output, KT_EXIT_OK);
}

int model_add(struct kt_cli *cli, const struct model_args *args)
{
    struct registry_change change;
    struct model_look look;
    const char *path = cli->arguments[0];
    model_look(cli, path, NULL, true, &look);
    if (!look.opens)
        return kt_cli_error(cli, "%s", look.message);
    int code = registry_open(cli, &change);
    const struct registry_model *other =
        code == KT_EXIT_OK ? registry_find_path(&change.registry, path) : NULL;
    if (other)
        code = kt_cli_error(cli, "%s:%u: %s is registered as %s; kt model edit changes it",
                            change.registry.path, other->line, path, other->name);
    char *name = NULL;
    if (code == KT_EXIT_OK) {
        char *absolute = registry_absolute(cli, path);
        name = args->name ? kt_cli_format(cli, "%s", args->name)
                          : registry_name_of(cli, &change.registry, absolute);
        code = registry_check_name(cli, &change.registry, "", name);
        if (code == KT_EXIT_OK)
            code = registry_set(cli, &change, name, REGISTRY_PATH, absolute);
        free(absolute);
    }
    if (code == KT_EXIT_OK)
        code = set_options(cli, &change, name, args);
    if (code == KT_EXIT_OK)
        code = save(cli, &change, name);
    free(name);
    registry_close(&change);
    return code;
}

static int unset(const struct kt_cli *cli, struct registry_change *change, const char *model, const char *key)
{
    const char *names[MODEL_N_KEPT + 1] = {REGISTRY_ALIASES};
    for (size_t i = 0; i < MODEL_N_KEPT; i++)
        names[i + 1] = model_kept[i].name;
    const struct registry_model *found = registry_find(&change->registry, model);
    if (registry_get(found, key) && strcmp(key, REGISTRY_PATH) != 0)
        return registry_set(cli, change, model, key, NULL);
    if (strcmp(key, REGISTRY_PATH) == 0)
        return kt_cli_usage(cli, "--unset path: a model without one is none; kt model remove forgets it");
    return kt_cli_error(cli, "%s:%u: the model %s has no %s%s", change->registry.path, found->line, model,
                        key, kt_cli_hint(key, names, MODEL_N_KEPT + 1).text);
}

static bool says_something(const struct model_args *args)
{
    bool something = args->name || args->aliases || args->path || args->unset.n > 0;
    for (size_t i = 0; i < MODEL_N_KEPT; i++)
        something |= args->kept[i] != NULL;
    return something;
}

int model_edit(struct kt_cli *cli, const struct model_args *args)
{
    struct registry_change change;
    if (!says_something(args))
        return kt_cli_usage(cli, "kt model edit needs an option that says what to change");
    int code = registry_open(cli, &change);
    const struct registry_model *found =
        code == KT_EXIT_OK ? model_find(cli, &change.registry, cli->arguments[0]) : NULL;
    if (!found)
        code = KT_EXIT_PROBLEM;
    char *name = kt_cli_format(cli, "%s", found ? found->name : "");
    for (size_t i = 0; i < args->unset.n && code == KT_EXIT_OK; i++)
        code = unset(cli, &change, name, args->unset.text[i]);
    if (code == KT_EXIT_OK && args->path)
        code = set_path(cli, &change, name, REGISTRY_PATH, args->path);
    if (code == KT_EXIT_OK)
        code = set_options(cli, &change, name, args);
    if (code == KT_EXIT_OK && args->name)
        code = registry_rename(cli, &change, name, args->name);
    if (code == KT_EXIT_OK)
        code = save(cli, &change, args->name ? args->name : name);
    free(name);
    registry_close(&change);
    return code;
}

int model_remove(const struct kt_cli *cli, const char *name)
{
    struct registry_change change;
    int code = registry_open(cli, &change);
    const struct registry_model *found = code == KT_EXIT_OK ? model_find(cli, &change.registry, name) : NULL;
    if (found) {
        char *section = kt_cli_format(cli, "%s", found->name);
        const char *path = registry_get(found, REGISTRY_PATH);
        char *stays = kt_cli_format(cli, "%s", path ? path : "nowhere");
        code = registry_remove(cli, &change, section);
        if (code == KT_EXIT_OK)
            code = registry_save(cli, &change);
        if (code == KT_EXIT_OK)
            kt_cli_note(cli, "%s is forgotten; its files stay: %s", section, stays);
        free(section);
        free(stays);
    } else {
        code = KT_EXIT_PROBLEM;
    }
    registry_close(&change);
    return code;
}
