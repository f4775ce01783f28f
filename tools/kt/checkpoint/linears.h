/* SPDX-License-Identifier: Apache-2.0 */
/* linears.h - the linears of a checkpoint: weights besides experts and embeddings. */
#ifndef KT_TOOL_LINEARS_H
#define KT_TOOL_LINEARS_H

#include "tools/kt/base/cli.h"

#include <kt/linear.h>

struct kt_model_linear {
    char *name;       /* "blk.12.attn_q" */
    size_t number_at; /* of "12"; 0: no layer's */
    const char *rest; /* ".attn_q", or the whole name */
    uint64_t layer;
    uint64_t index; /* of its tensor; in a store, of the linear */
    bool known;     /* the view below is that of the weight or of one like it */
    bool has_bias;
    struct kt_view view;                 /* its data is not to be read */
    struct kt_stored_linear_info stored; /* of a store; else its name is NULL and its form "" */
    struct kt_error error;               /* why it is not known */
};

/* Those of the n layers with these numbers, or all where layers is NULL; by layer, then as the files have
 * them. Allocated; one whose format cannot be read is among them. */
struct kt_model_linear *kt_model_linears(const struct kt_cli *cli, struct kt_checkpoint *checkpoint,
                                         const uint64_t *layers, size_t n, size_t *n_linears);
void kt_model_linears_free(struct kt_model_linear *linears, size_t n);

/* Are the names the same but for the number of the layer? */
bool kt_model_linear_twins(const struct kt_model_linear *a, const struct kt_model_linear *b);

/* "q4_k"; of a store its form. */
const char *kt_model_linear_type(const struct kt_model_linear *linear);

/* Would rows `first` and `second` of an array look the same in a table, but for their layers? */
typedef bool (*kt_model_same_fn)(const void *rows, size_t first, size_t second);

/*
 * Marks the twins of linear `first` behind it that look the same, and names them: "blk.0-5,8.attn_q". For
 * people only; in other formats than tables each is alone. rows: by linear, for `same`. Allocated.
 */
char *kt_model_linear_group(const struct kt_cli *cli, const struct kt_model_linear *linears, size_t n,
                            size_t first, kt_model_same_fn same, const void *rows, bool *grouped,
                            uint64_t *count);

/* Does it choose experts, by its name? Engines multiply it in float32. */
bool kt_model_linear_routes(const struct kt_model_linear *linear);

/* Is it a store of linears without any layer, all of which is asked for? layers: the option's text. */
bool kt_model_only_linears(const struct kt_checkpoint *checkpoint, const char *layers);
/* Is it a model, none of whose layers has experts, not even in a format that is not supported? */
bool kt_model_is_dense(const struct kt_checkpoint *checkpoint, const char *layers);

#endif
