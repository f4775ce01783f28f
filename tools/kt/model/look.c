/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - what stands at the path of a model. */
#define _GNU_SOURCE

#include "tools/kt/model/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is one of these files in the checkpoint's folder? */
static bool has_file(const struct kt_cli *cli, const char *path, const char *const *names)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode), found = false;
    int length = is_folder ? (int)strlen(path) : slash ? (int)(slash - path) : 0;
    for (; *names && !found; names++) {
        char *file = kt_cli_format(cli, "%.*s/%s", length, path, *names);
        found = access(file, R_OK) == 0;
        free(file);
    }
    return found;
}

static bool has_tokenizer(const struct kt_cli *cli, const char *path, struct kt_checkpoint *checkpoint,
                          const char *format)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json",
                                        NULL};
    struct kt_value value;
    if (strcmp(format, "gguf") == 0)
        return kt_checkpoint_value_find(checkpoint, "tokenizer.ggml.model", &value, NULL) == KT_OK;
    return has_file(cli, path, names);
}

static void note_missing(struct model_look *look, const char *what)
{
    size_t end = strlen(look->missing);
    snprintf(look->missing + end, sizeof(look->missing) - end, "%s%s", end ? ", " : "", what);
}

void model_look(struct kt_cli *cli, const char *path, const char *experts, bool warns,
                struct model_look *look)
{
    static const char *const settings[] = {"config.json", NULL};
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    struct kt_checkpoint_info info;
    struct kt_error error;
    *look = (struct model_look){.opens = false};
    params.log = warns ? kt_cli_log : NULL;
    params.log_data = cli;
    kt_signals_mapped(path);
    if (access(path, F_OK) != 0)
        note_missing(look, "files");
    if (experts && access(experts, F_OK) != 0)
        note_missing(look, "experts");
    if (kt_checkpoint_open(path, &params, &checkpoint, &error) != KT_OK) {
        snprintf(look->message, sizeof(look->message), "%s", error.message);
        if (!*look->missing)
            note_missing(look, "sound files");
        return;
    }
    look->opens = true;
    kt_checkpoint_info(checkpoint, &info);
    snprintf(look->architecture, sizeof(look->architecture), "%s", info.architecture);
    snprintf(look->format, sizeof(look->format), "%s", info.format);
    snprintf(look->title, sizeof(look->title), "%s", info.name);
    look->size = info.size;
    look->n_files = info.n_files;
    look->n_layers = info.n_layers;
    look->n_moe_layers = info.n_moe_layers;
    if (strcmp(info.format, "gguf") != 0 && !has_file(cli, path, settings))
        note_missing(look, "config.json");
    if (!has_tokenizer(cli, path, checkpoint, info.format))
        note_missing(look, "tokenizer");
    kt_checkpoint_close(checkpoint);
}
