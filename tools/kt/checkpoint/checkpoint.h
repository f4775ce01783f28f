/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - shared by the verbs that run or plan the layers of a checkpoint. */
#ifndef KT_TOOL_MODEL_H
#define KT_TOOL_MODEL_H

#include "tools/kt/base/cli.h"

/* "q4_k", or "q4_k q4_k q6_k" where gate, up and down differ; a store's form. Returns text. */
char *kt_model_types(const struct kt_moe_info *moe, char *text, size_t size);

/* Adds a layer to a list for people, "0-5,8,11"; *text is allocated again, NULL: the first. Ascending. */
void kt_model_list_layer(const struct kt_cli *cli, char **text, uint64_t layer);

/*
 * Where four or more parts of a list are equally long and equally far from each other, the middle ones become
 * "...": "0-5,8,11,...,38". Allocated; `list` is freed.
 */
char *kt_model_shorten_list(const struct kt_cli *cli, char *list);

/*
 * Parses the layers of an option: "3", "0-3", "0,2"; NULL or "all": all, ascending. The numbers are
 * allocated, each once. A layer without experts is an error. Returns an exit code.
 */
int kt_model_layers(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const char *option,
                    const char *text, uint64_t **layers, size_t *n);

/* Is the file at `path`, under any name, one of the checkpoint's that was opened at `model`? */
bool kt_model_has_file(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const char *model,
                       const char *path);

#endif
