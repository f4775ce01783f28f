/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int4_build.h - models whose experts have weights of 4 bits, packed as their formats are published. A
 * weight is a function of its place: of its code, and of the scale and the zero of its group.
 */
#ifndef KT_TESTS_SUPPORT_INT4_BUILD_H
#define KT_TESTS_SUPPORT_INT4_BUILD_H

#include "tests/support/family_build.h"

enum layout { PACKED_WORDS, PACKED_BYTES, GPTQ, AWQ, MX, MX_F4, GPT_OSS, N_LAYOUTS };

enum { EXPERTS = 3, HIDDEN = 64, INTERMEDIATE = 96, LARGEST = 96 };

/* What is different from a right model. A tensor whose name ends with `part` is left out (dtype ""), or
 * has this dtype or shape; of a shape of its own the data is zeros. */
struct change {
    const char *part, *dtype;
    unsigned n_dims;
    uint64_t dims[4];
};

struct model {
    enum layout layout;
    uint64_t group;      /* columns; 0: all of them */
    const char *scale;   /* the dtype of the scales */
    const char *prefix;  /* "model.layers." */
    const char *experts; /* "mlp.experts" */
    const char *config;  /* its config.json, or NULL */
    const char *extra;   /* the part of one more tensor of each projection, I32 [8], or NULL */
    struct change change;
    /* Scale number `at` (as the format counts them) of expert 1's up projection is these bits. */
    bool poisoned;
    uint64_t at;
    uint32_t bits;
    unsigned zero;      /* of GPTQ as it is stored, 0: 7 */
    uint64_t odd_zero;  /* number of one that is stored as 3, counted from 1; 0: none */
    uint64_t odd_order; /* number of a column that is of group 1, counted from 1; 0: none */
    uint64_t shape_add; /* to weight_shape's columns */
};

struct model model_of(enum layout layout);
void model_write(const struct model *model);

/* A weight in float64; a bias of gpt-oss. */
double weight_of(const struct model *model, int expert, int projection, uint64_t row, uint64_t col);
double bias_of(int expert, int projection, uint64_t row);
uint64_t rows_of(int projection);
uint64_t cols_of(int projection);

#endif
