/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8_case.h - a case of check_int8.c: an expert of random weights, packed by a level, and rows. Every
 * buffer ends at a page that must not be touched.
 */
#ifndef KT_TESTS_INT8_CASE_H
#define KT_TESTS_INT8_CASE_H

#include CHECK_BACKEND
#include "tests/checkkernel/int8_guard.h"
#include "tests/checkkernel/int8_levels.h"

#include <check.h>

struct matrix {
    uint64_t rows, cols;
    float *value; /* what the source holds, exactly */
    void *source; /* in the view's form */
    float *bias;
    int *q;       /* the model's */
    float *scale; /* of rows */
    struct kt_view view;
};

struct expert {
    struct kt_layout layout;
    uint32_t group_size;
    void *packed[2]; /* what the first level made of it: others must make the same */
    struct matrix matrix[3];
    struct kt_expert source;
};

#ifndef CHECK_INSTANCE /* whose first part is a struct instance */
#define CHECK_INSTANCE struct instance
#endif

struct run {
    const struct check_level *level;
    CHECK_INSTANCE instance;
    struct kt_layout layout;
    void *packed[2];
    void *scratch;
};

struct batch {
    uint32_t n_tokens, n;
    void *source;
    float *x;
    uint32_t *index, *out_index;
};

float random_number(void);
void *take(size_t size);
void make_expert(struct expert *expert, const struct check_shape *shape);
void free_expert(struct expert *expert);
void make_batch(struct batch *batch, uint64_t k, uint32_t dtype, uint32_t n);
void free_batch(struct batch *batch);

/* Packs the expert; the first run of an expert asks the model what its weights are. */
void start_run(struct run *run, const struct check_level *level, struct expert *expert, uint64_t l2_size,
               uint32_t y_dtype);
void end_run(struct run *run);

/* h of rows index[0..n-1] of x, guarded. */
float *run_gate_up(struct run *run, const struct expert *expert, const void *x, uint32_t dtype,
                   uint32_t n_tokens, const uint32_t *index, uint32_t n);
/* y of h, row r at out_index[r]; y has `stride` bytes a row. */
void run_down(struct run *run, const struct expert *expert, const float *h, uint32_t n,
              const uint32_t *out_index, void *y, uint64_t stride);

/* ---- the model of the backend's numbers, in the plainest words ---- */

/* A row of activations, or of weights with one scale: q = x / scale. */
float model_quantize(const float *x, uint64_t k, int *q);
/* Fills q and scale of the expert's matrices, given what a level has packed. */
void model_weights(struct expert *expert, const struct kt_layout *layout, void *const packed[2]);
/* What an instance has beside struct instance, which is filled. */
void model_open(void *instance, const struct expert *expert);
/* Tests of the backend's own. */
void model_tests(TCase *tcase);

#endif
