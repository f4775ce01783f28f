/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - the models that kt knows by name, in an INI file that people may edit, too:
 *
 *     [qwen3-30b]
 *     path = /models/Qwen3-30B-A3B-Q4_K_M.gguf
 *     aliases = q3, qwen3
 *     context = 16384
 *
 * A section is a model; its keys are those of enum registry_key and the options of options.h. What kt does
 * not know, comments and the order of lines stay as they are. The list of known models has the same form.
 */
#ifndef KT_TOOL_MODEL_REGISTRY_H
#define KT_TOOL_MODEL_REGISTRY_H

#include "tools/kt/config/config.h"

/* Keys that are not options. */
#define REGISTRY_PATH "path"
#define REGISTRY_ALIASES "aliases"       /* further names, "a, b" */
#define REGISTRY_REPOSITORY "repository" /* OWNER/NAME at the hub that it was pulled from */
#define REGISTRY_HUB "hub"               /* which one that was, if not huggingface */
#define REGISTRY_REVISION "revision"     /* its commit */
#define REGISTRY_MODELSCOPE                                                                        \
    "modelscope"                 /* of a known model: its repository there, if it has another name \
                                  */
#define REGISTRY_FORMAT "format" /* of a known model: for people */

struct registry_pair {
    char *key, *value;
    unsigned line;
};

struct registry_model {
    char *name;
    unsigned line;
    struct registry_pair *pairs;
    size_t n_pairs;
};

struct registry {
    char *path; /* of the file */
    struct registry_model *models;
    size_t n_models;
};

/* kt-kernel's folder for the user's data, and files below it; NULL after a message. Freed by the caller. */
char *registry_data(const struct kt_cli *cli, const char *below);
/* Reads the registry, or the known models that are shipped. A file that is not there is an empty one. Returns
 * 0, or an exit code after a message with the line that is wrong; registry_free either way. */
int registry_read(const struct kt_cli *cli, struct registry *registry);
int registry_read_known(const struct kt_cli *cli, struct registry *registry);
void registry_free(struct registry *registry);

/* A name, an alias or a repository, in any case; NULL: none has it. */
const struct registry_model *registry_find(const struct registry *registry, const char *name);
/* The model whose files are at this path. */
const struct registry_model *registry_find_path(const struct registry *registry, const char *path);
/* NULL: it has no such key. */
const char *registry_get(const struct registry_model *model, const char *key);
/* Letters, digits, . _ - + and :, the first one a letter or digit; at most 100. */
bool registry_is_name(const char *text);
/* Calls `take` with each word of "a, b"; false as soon as it returns false. */
bool registry_words(const char *list, bool (*take)(void *data, const char *word), void *data);

/* ---- changes -------------------------------------------------------------------------------- */

/* The file, locked from registry_open to registry_close. */
struct registry_change {
    struct config_file file;
    struct registry registry; /* as it is after the changes so far */
};

/* These return 0, or an exit code after a message. */
int registry_open(const struct kt_cli *cli, struct registry_change *change);
/* Without a lock, for changes that nobody saves. */
int registry_try(const struct kt_cli *cli, struct registry_change *change);
/* Puts a value into a section, which is made if it is not there; NULL: takes the key out. */
int registry_set(const struct kt_cli *cli, struct registry_change *change, const char *model, const char *key,
                 const char *value);
int registry_remove(const struct kt_cli *cli, struct registry_change *change, const char *model);
int registry_rename(const struct kt_cli *cli, struct registry_change *change, const char *model,
                    const char *name);
/* May this model have the name, or has another one it? */
int registry_check_name(const struct kt_cli *cli, const struct registry *registry, const char *model,
                        const char *name);
/* The same of each in "a, b", which may be NULL. */
int registry_check_names(const struct kt_cli *cli, const struct registry *registry, const char *model,
                         const char *names);
/* Replaces the file. */
int registry_save(const struct kt_cli *cli, struct registry_change *change);
void registry_close(struct registry_change *change);

/* `path` from the root on. */
char *registry_absolute(const struct kt_cli *cli, const char *path);
/* A name for what is at the path: its last part, with nothing that names must not have, and a number behind
 * it if another model is called so. */
char *registry_name_of(const struct kt_cli *cli, const struct registry *registry, const char *path);

#endif
