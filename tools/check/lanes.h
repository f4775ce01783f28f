/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - sums in float64 by vectors: as many at a time as hide how long an addition takes. */
#ifndef KT_CHECK_LANES_H
#define KT_CHECK_LANES_H

#include <stdint.h>
#include <string.h>

#define LANES 8
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t lane_bits __attribute__((vector_size(LANES * sizeof(int64_t))));
typedef float lane_floats __attribute__((vector_size(LANES * sizeof(float))));

/* Before a function: a version for each length of vectors, all of the same bits. */
#if defined __x86_64__ && defined __gnu_linux__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ && \
    !defined __SANITIZE_THREAD__
#define LANES_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LANES_CLONES
#endif

static inline void lanes_load(const double *from, lanes *to)
{
    memcpy(to, from, sizeof *to);
}

static inline void lanes_load_floats(const float *from, lanes *to)
{
    lane_floats floats;
    memcpy(&floats, from, sizeof floats);
    *to = __builtin_convertvector(floats, lanes);
}

/* Adds |value|. */
static inline void lanes_add_size(lanes *sum, const lanes *value)
{
    *sum += (lanes)((lane_bits)*value & INT64_MAX);
}

static inline double lanes_sum(const lanes *values)
{
    double sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += (*values)[l];
    return sum;
}

#endif
