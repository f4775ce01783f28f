/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - shared by the parts of kt convert: layers with experts, and linears. */
#ifndef KT_TOOL_CONVERT_H
#define KT_TOOL_CONVERT_H

#include "tools/kt/base/table.h"

struct kt_convert_args {
    const char *input;
    const char *output;
    const char *method;
    const char *layers;
    const char *linears;
    bool no_experts;
    bool resume;
};

struct kt_convert_linear;

struct kt_conversion {
    struct kt_cli *cli;
    const struct kt_convert_args *args;
    const char *backend;
    struct kt_context *context;
    struct kt_checkpoint *input;
    struct kt_checkpoint *store; /* the store that the folder held before, or NULL */
    char source[17];
    struct kt_table *table;
    size_t n_rows;
    uint64_t before, total; /* bytes of packed weights: of earlier layers and linears, of all */
    uint64_t largest;       /* packed bytes of an expert */
    bool watched;           /* the file being written is removed if a signal ends the command */

    /* ---- linears.c ---- */
    struct kt_model_linear *of;
    struct kt_convert_linear *linear; /* those that --linears names */
    size_t n_linears;
    uint64_t largest_linear; /* its packed bytes */
};

/* Progress of a layer or linear, for kt_store_params; data is the conversion. Also has signals remove the
 * file; kt_convert_unwatch: it is finished. */
void kt_convert_progress(void *data, uint64_t done, uint64_t total);
void kt_convert_unwatch(struct kt_conversion *conversion);

/* ---- linears.c ---- */

/* Plans the linears that --linears names; those of the n layers with these numbers, or all where layers is
 * NULL. One that the backend does not take stays in the checkpoint. */
int kt_convert_linears_plan(struct kt_conversion *conversion, const uint64_t *layers, size_t n);

/* Stores them. */
int kt_convert_linears(struct kt_conversion *conversion);

/* Their table, and the note below it. */
void kt_convert_linears_table(const struct kt_conversion *conversion, struct kt_output *output);
void kt_convert_linears_free(struct kt_conversion *conversion);

#endif
