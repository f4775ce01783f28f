/* SPDX-License-Identifier: Apache-2.0 */
/* heads.h - a small matrix for each head, as latent attention has two of: products of one token's heads, each
 * with its own matrix. */
#ifndef KT_ENGINE_MODEL_BLOCK_HEADS_H
#define KT_ENGINE_MODEL_BLOCK_HEADS_H

#include "tools/engine/model/block/block.h"

/** [n_heads][rows][cols]. view: all rows of all heads, one head's after another's, in memory of the model;
 * plain numbers, or a format that is decoded for each product. */
struct kt_heads {
    uint32_t rows, cols;
    struct kt_view view;
};

/** Where a checkpoint has them: head h has `stride` rows of the view, ours from `first` on, and they are the
 * matrix's rows, or its columns if transposed. */
struct kt_heads_source {
    struct kt_view view;
    uint64_t stride, first;
    bool transposed;
};

/** Plans them; kt_model_finish copies them. heads->rows and cols are set. */
enum kt_status kt_heads_load(struct kt_model *model, const struct kt_heads_source *source,
                             struct kt_heads *heads, struct kt_error *error);

/** Parts of a head's outputs that threads share, and of all heads' ones. */
uint32_t kt_heads_units(const struct kt_heads *heads);

/** Rows of a slice, of all heads: head h has `in_width` numbers of a token from h * in_width on, and puts its
 * outputs at h * out_width. */
struct kt_heads_rows {
    const float *in;
    uint32_t in_width;
    float *out;
    uint32_t out_width;
};
/** Multiplies outputs of units begin .. end - 1, which count through all heads, for all tokens. */
enum kt_status kt_heads_multiply(const struct kt_slice *slice, const struct kt_heads *heads,
                                 const struct kt_heads_rows *rows, struct kt_range units,
                                 struct kt_error *error);

#endif
