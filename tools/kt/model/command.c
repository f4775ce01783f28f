/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - kt model: names of models. */
#include "tools/kt/model/command.h"

#include <stdlib.h>
#include <string.h>

const struct registry_model *model_find(const struct kt_cli *cli, const struct registry *registry,
                                        const char *name)
{
    const struct registry_model *model = registry_find(registry, name);
    if (model)
        return model;
    const char **names = kt_cli_alloc(cli, registry->n_models, sizeof(*names));
    for (size_t i = 0; i < registry->n_models; i++)
        names[i] = registry->models[i].name;
    kt_cli_error(cli, "%s: no such model%s; 'kt model list' has the names", name,
                 kt_cli_hint(name, names, registry->n_models).text);
    free(names);
    return NULL;
}

static int run(struct kt_cli *cli, enum model_action action, const struct model_args *args)
{
    switch (action) {
    case MODEL_LIST:
        return args->known ? model_list_known(cli) : args->names ? model_list_names(cli) : model_list(cli);
    case MODEL_ADD:
        return model_add(cli, args);
    case MODEL_SCAN:
        return model_scan(cli, args->add);
    case MODEL_INFO:
        return model_info(cli, cli->arguments[0]);
    case MODEL_EDIT:
        return model_edit(cli, args);
    case MODEL_REMOVE:
        return model_remove(cli, cli->arguments[0]);
    default:
        return model_path(cli, cli->arguments[0]);
    }
}

int kt_cmd_model(struct kt_cli *cli, int argc, char **argv)
{
    struct model_args args = {.known = false};
    int action = model_parse(cli, argc, argv, &args);
    if (action < 0)
        return cli->exit_code;
    if (action == MODEL_PULL || action == MODEL_VERIFY)
        return kt_cli_execute(cli);
    return run(cli, (enum model_action)action, &args);
}
