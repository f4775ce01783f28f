/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line of kt model, and which options of kt run are kept with a model. */
#ifndef KT_TOOL_MODEL_OPTIONS_H
#define KT_TOOL_MODEL_OPTIONS_H

#include "tools/kt/base/cli.h"

/* Options that are kept with a model, each under its name; a row whose name is NULL ends them. Their types
 * are those of kt run. */
extern const struct kt_cli_option model_kept[];
enum { MODEL_N_KEPT = 18 };
/* NULL: no such option is kept. */
const struct kt_cli_option *model_find_kept(const char *key);

struct model_args {
    bool known, names, add;            /* list, list, scan */
    const char *name, *aliases, *path; /* add, edit, pull; path: edit */
    struct kt_cli_texts unset;         /* edit */
    const char *kept[MODEL_N_KEPT];    /* add, edit: as model_kept has them; NULL: not said */
    const char *to, *revision;         /* pull, and what follows, too */
    struct kt_cli_texts file;
    int hub;
    uint64_t jobs, timeout, retries; /* jobs, timeout 0: not said; retries UINT64_MAX */
    double retry_wait;               /* below 0: not said */
    bool dry_run, allow_http;
};
enum model_hub { MODEL_HUGGINGFACE, MODEL_MODELSCOPE };

enum model_action {
    MODEL_LIST,
    MODEL_ADD,
    MODEL_SCAN,
    MODEL_INFO,
    MODEL_EDIT,
    MODEL_REMOVE,
    MODEL_PATH,
    MODEL_PULL,
    MODEL_VERIFY,
    MODEL_N_ACTIONS
};

/* Reads the command line. The action, or -1: return cli->exit_code. cli->arguments then are what follows it.
 */
int model_parse(struct kt_cli *cli, int argc, char **argv, struct model_args *args);

#endif
