/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c - a backend at every level that this CPU can run, one after the other. */
#include "tools/kt/bench/bench.h"

#include <stdlib.h>
#include <string.h>

/* Makes a context in which the backend uses the level, if it can. */
static int run_level(struct kt_cli *cli, const char *backend, const char *level, bool tells,
                     int (*run)(void *data, struct kt_context *context), void *data)
{
    struct kt_context *context;
    struct kt_backend_info info;
    kt_cli_set(cli, "plugin.%s.level=%s", backend, level);
    cli->shows_plugins = true; /* why the level cannot run is said here */
    int code = kt_cli_context(cli, &context);
    cli->shows_plugins = false;
    if (code != KT_EXIT_OK)
        return code;
    for (size_t i = 0; i < kt_context_backend_count(context); i++) {
        if (kt_context_backend(context, i, &info, NULL) != KT_OK || strcmp(info.name, backend) != 0)
            continue;
        if (info.state == KT_BACKEND_LOADED)
            code = run(data, context);
        else if (tells)
            kt_cli_note(cli, "backend %s, level %s: %s", backend, level, info.reason);
        break;
    }
    kt_context_destroy(context);
    return code;
}

int bench_each_level(struct kt_cli *cli, const struct kt_context *context, const char *backend, bool tells,
                     int (*run)(void *data, struct kt_context *context), void *data)
{
    struct kt_backend_info info = {.levels = ""};
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < kt_context_backend_count(context); i++)
        if (kt_context_backend(context, i, &info, NULL) == KT_OK && strcmp(info.name, backend) == 0)
            break;
    char *names = kt_cli_format(cli, "%s", info.levels);
    for (char *rest = names, *name; code == KT_EXIT_OK && (name = strsep(&rest, " ")) != NULL;)
        code = run_level(cli, backend, name, tells, run, data);
    free(names);
    return code;
}
