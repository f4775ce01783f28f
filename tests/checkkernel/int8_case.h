/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8_case.h - a case of check_int8.c: an expert of random weights, packed by a level, and rows. Every
 * buffer ends at a page that must not be touched.
 */
#ifndef KT_TESTS_INT8_CASE_H
#define KT_TESTS_INT8_CASE_H

#include CHECK_BACKEND
#include "tools/check/exact.h"
#include "tools/check/guard.h"
#include "tools/check/number.h"
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
/* x as a number of the format, which it gives as float32 too. */
float round_to(uint32_t dtype, float x, void *to);
void *take(size_t size);
void make_expert(struct expert *expert, const struct check_shape *shape);
void free_expert(struct expert *expert);
void make_batch(struct batch *batch, uint64_t k, uint32_t dtype, uint32_t n);
void free_batch(struct batch *batch);

/* Packs the expert; the first run of an expert asks the model what its weights are. */
void start_run(struct run *run, const struct check_level *level, struct expert *expert, uint64_t l2_size,
               uint32_t y_dtype);
void end_run(struct run *run);

uint64_t count_panels(const struct kt_layout *layout, enum kt_stage stage);
/* n, filled up to whole units of rows. */
uint64_t pad_rows(const struct run *run, uint32_t n);
/* Cuts panels 0..n in up to three ranges and multiplies them, the last first. */
void run_ranges(struct run *run, struct kt_product *job, enum kt_stage stage, uint64_t n);

/* h of rows index[0..n-1] of x, guarded. */
float *run_gate_up(struct run *run, const struct expert *expert, const void *x, uint32_t dtype,
                   uint32_t n_tokens, const uint32_t *index, uint32_t n);
/* y of h, row r at out_index[r]; y has `stride` bytes a row. */
void run_down(struct run *run, const struct expert *expert, const float *h, uint32_t n,
              const uint32_t *out_index, void *y, uint64_t stride);

/* h of row r of n, as int8/rows.h lays it out. */
static inline float read_h(const float *h, uint32_t n, uint32_t r, uint64_t i)
{
    return h[(i / 16 * round_up(n, 16) + r) * 16 + i % 16];
}

/* ---- int8_linear.c: a linear of the down projection ---- */

void check_linear_weights(struct run *run, const struct expert *expert);
/* Its rows are those of h; y is what run_down has made of them. */
void check_linear_rows(struct run *run, const struct expert *expert, const float *h, uint32_t n,
                       const uint32_t *out_index, const void *y, uint64_t stride);

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
