/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded.h - what a run made of its cases, as a file of hashes, for a later run of the same cases where
 * computing is slow: on an emulated CPU, with sanitizers. Results of the same bits are as right as those
 * were, and float64 need not say so again.
 *
 * The first line is the seed, every other one a case and its two hashes:
 *
 *     seed 20261121
 *     avx2 0 q4_k 7 1 0f1e2d3c4b5a6978 8796a5b4c3d2e1f0
 */
#ifndef KT_CHECKKERNEL_RECORDED_H
#define KT_CHECKKERNEL_RECORDED_H

#include "tools/check/check.h"

#include <stdio.h>

/* Hashes of a case's results, one of each stage: of h, 0 for a linear, and of y without the gaps. */
struct recorded {
    uint64_t stage[2];
};

uint64_t recorded_hash(const struct check *check, enum kt_stage stage);
struct recorded recorded_make(const struct check *check);

/* Have a large case's results, as far as they are made, the recorded bits? Then they were made in other ways
 * as well, by the same kernels, where they were recorded, and once is enough here. */
static inline bool recorded_suffices(const struct check *check)
{
    return check->known && check->large;
}

/* Opens a file, which then has its first line; NULL: it cannot be, which is said. */
FILE *recorded_create(const char *path, uint64_t seed);
/* Writes the line of a case; `name` is unique to it. */
void recorded_add(FILE *file, const char *name, const struct recorded *recorded);

/* The lines of a file; NULL: it cannot be read, or is of another seed. To be freed. */
char *recorded_load(const char *path, uint64_t seed);
/* The case of that name; false: the lines do not have it. */
bool recorded_find(const char *lines, const char *name, struct recorded *recorded);

#endif
