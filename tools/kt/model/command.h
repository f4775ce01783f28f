/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - shared by the actions of kt model. */
#ifndef KT_TOOL_MODEL_COMMAND_H
#define KT_TOOL_MODEL_COMMAND_H

#include "tools/kt/model/options.h"
#include "tools/kt/model/registry.h"
#include "tools/kt/base/table.h"

int model_list(struct kt_cli *cli);
int model_list_known(struct kt_cli *cli);
int model_list_names(const struct kt_cli *cli);
int model_info(struct kt_cli *cli, const char *name);
int model_path(const struct kt_cli *cli, const char *name);
int model_add(struct kt_cli *cli, const struct model_args *args);
int model_edit(struct kt_cli *cli, const struct model_args *args);
int model_remove(const struct kt_cli *cli, const char *name);
int model_scan(struct kt_cli *cli, bool add);

/* The registered model of this name; NULL after a message with near ones. */
const struct registry_model *model_find(const struct kt_cli *cli, const struct registry *registry,
                                        const char *name);

/* ---- look.c --------------------------------------------------------------------------------- */

/* What is at a path; texts are cut to fit. */
struct model_look {
    bool opens;
    char architecture[48], format[16], title[64];
    uint64_t size, n_files, n_layers, n_moe_layers;
    char missing[64];   /* "", "files", "tokenizer", "experts", ... */
    char message[1024]; /* why it does not open */
};
/* Reads headers. `experts`: a path that must be there, too, or NULL. With `warns`, the reader's warnings are
 * printed. */
void model_look(struct kt_cli *cli, const char *path, const char *experts, bool warns,
                struct model_look *look);

/* ---- list.c --------------------------------------------------------------------------------- */

/* A table of models, as kt model list has it, and a row of it. */
struct kt_table *model_table(struct kt_output *output);
void model_row(struct kt_cli *cli, struct kt_table *table, const struct registry_model *model);

#endif
