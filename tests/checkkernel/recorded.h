/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded.h - what a run made of its cases, as a file of hashes, for a later run of the same cases where
 * computing is slow: on an emulated CPU, with sanitizers. Results of the same bits are as right as those
 * were, and float64 need not say so again; nor of a level whose bits must be, and are, those of the first.
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

/* Whose results they are: of this level, or of the scalar one instead, of a run before; of the first level
 * that must give the same bits, of this run. */
enum recorded_of { RECORDED_LEVEL, RECORDED_SCALAR, RECORDED_FIRST };

/* Hashes of a case's results, one of each stage: of h, 0 for a linear, and of y without the gaps. */
struct recorded {
    uint64_t stage[2];
    enum recorded_of of;
};

uint64_t recorded_hash(const struct check *check, enum kt_stage stage);
struct recorded recorded_make(const struct check *check);

/* A case on a level: of the instance of --also or not, its format, which shape, experts or a linear. */
struct recorded_case {
    const char *level;
    bool also;
    const char *format;
    unsigned kind;
    bool linear;
};

/* Are they a run's before, which has tried everything? */
static inline bool recorded_before(const struct check *check)
{
    return check->known && check->known->of != RECORDED_FIRST;
}

/* Were the case's results, whose bits are the same as far as they are made, made in other ways as well by
 * this machine code, or, of a large case, by these sources? Then they need not be made so again. */
static inline bool recorded_suffices(const struct check *check)
{
    return recorded_before(check) &&
           (check->large || (check->same_code && check->known->of == RECORDED_LEVEL));
}

/* Opens a file, which then has its first line; NULL: it cannot be, which is said. */
FILE *recorded_create(const char *path, uint64_t seed);
/* Writes the line of a case. */
void recorded_add(FILE *file, const struct recorded_case *of, const struct recorded *recorded);

/* The lines of a file; NULL: cannot be read, or is of another seed. To be freed. */
char *recorded_load(const char *path, uint64_t seed);
/* What the level gave, or, if it did not run, the scalar one, which has the same bits in most plugins; false:
 * neither is in the lines. */
bool recorded_find(const char *lines, const struct recorded_case *of, struct recorded *recorded);

#endif
