/* SPDX-License-Identifier: Apache-2.0 */
/* random_view.h - matrices of random bytes in any format. */
#ifndef KT_TESTS_SUPPORT_RANDOM_VIEW_H
#define KT_TESTS_SUPPORT_RANDOM_VIEW_H

#include <kt/kt.h>

/* Weights are random bytes, but for those of each block that say how large its numbers are. */
struct random_source {
    const char *backend;             /* that takes them */
    uint32_t dtype, elements, bytes; /* of a block */
    uint32_t at;                     /* the byte with the exponent */
    uint8_t exponent;
    uint32_t scale_cols; /* columns with a scale of bfloat16; 0: none */
};

struct kt_view random_view(const struct random_source *source, uint64_t rows, uint64_t cols);
void random_view_free(struct kt_view *view);

/* A context with `threads` threads in which that backend alone is to be had, at `level` if it is not NULL, on
 * a machine like hwloc's synthetic description `nodes`, or on this one (NULL); `setting` one more or NULL.
 * NULL: the backend is not built. */
struct kt_context *random_view_context(const struct random_source *source, const char *level,
                                       unsigned threads, const char *nodes, const char *setting);

#endif
