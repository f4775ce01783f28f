/* SPDX-License-Identifier: Apache-2.0 */
/* rows_model.h - levels, rows in memory, and bounds, for the tests of functions of rows. */
#ifndef KT_TESTS_CORE_ROWS_ROWS_MODEL_H
#define KT_TESTS_CORE_ROWS_ROWS_MODEL_H

#include "tests/support/layer_fixture.h"

#include <kt/kt.h>
#include <stdbool.h>

/* Half of float32's step at 1: what rounding once costs, relatively. */
#define UNIT 0x1p-24

/* Levels by number, for loop tests. */
#define N_LEVELS 7
const char *level_name(int level);

/* The functions of a level; NULL: this CPU, or this build, has not got it. A sandbox must be open. */
const struct kt_rows *level_open(int level);
const struct kt_rows *level_open_with(int level, const char *setting);
void level_close(void);
struct kt_context *level_context(void);

/* Rows of parts in memory with gaps between them. Strides are bytes. */
struct plane {
    uint32_t dtype, rows, parts, size;
    int64_t stride, part_stride;
    size_t bytes;
    uint8_t *data, *before; /* a copy of data, made by plane_keep */
};

/* Gaussian numbers times `scale`; gap: numbers between parts, and twice between rows. */
struct plane plane_make(uint32_t dtype, uint32_t rows, uint32_t parts, uint32_t size, uint32_t gap,
                        double scale, uint64_t *seed);
void plane_free(struct plane *plane);
double plane_get(const struct plane *plane, uint32_t row, uint32_t part, uint32_t i);
void plane_set(struct plane *plane, uint32_t row, uint32_t part, uint32_t i, double value);
void plane_keep(struct plane *plane);
/* Are all bytes outside of the rows as they were? */
bool plane_gaps_kept(const struct plane *plane);
struct kt_rows_input plane_input(const struct plane *plane);
struct kt_rows_output plane_output(struct plane *plane);

/* What storing a number of that size costs at most. */
double rounding_of(uint32_t dtype, double value);

/* n Gaussian numbers. */
float *floats_make(size_t n, double scale, uint64_t *seed);

double model_sigmoid(double x);

/* libcheck writes down each place that a test passes, so it is asked only if something is wrong. */
#define ck_near(found, expected, bound)                                                                     \
    do {                                                                                                    \
        double ck_found = (found), ck_expected = (expected), ck_bound = (bound);                            \
        if (!(fabs(ck_found - ck_expected) <= ck_bound))                                                    \
            ck_abort_msg("%s is %.9g, expected %.9g, bound %.3g", #found, ck_found, ck_expected, ck_bound); \
    } while (0)
#define ck_holds(condition)                 \
    do {                                    \
        if (!(condition))                   \
            ck_abort_msg("%s", #condition); \
    } while (0)

#endif
