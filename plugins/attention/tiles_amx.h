/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/tiles_amx.h - struct tiles multiplied by AMX: 2 x 2 or 1 x 4 tiles of sums.
 */
#ifndef KT_PLUGINS_ATTENTION_TILES_AMX_H
#define KT_PLUGINS_ATTENTION_TILES_AMX_H

#include "plugins/attention/pairs_weights.h"
#include "plugins/attention/tiles.h"
#include "plugins/common/simd/amx.h"

#define MOST_ACROSS_STRIPS STEPS
#define MOST_ACROSS(groups) ((groups) > 1 ? 2u : 4u)
#define TILES_ROWS LINE
#define TILES_CODES 0
#define MOST_STEPS_BESIDE 8 /* of keys whose queries L1 has room for, as they are read twice */

/* How often fetch_across() is called for, with each of n tiles of a step. */
static uint32_t find_times(const struct tiles *p, uint32_t n)
{
    const struct fetcher *f = p->fetcher;
    return p->share > 0 ? divide_up(p->share, (f->n < f->across ? f->n : f->across) * n) : 0;
}

/* One group of rows, n tiles of b. Lines are fetched tile by tile: in a burst they would be dropped. */
static NOINLINE void multiply_one(const struct tiles *p, uint32_t n)
{
    const uint32_t times = find_times(p, n);
    const uint8_t *a = p->a;
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (uint32_t s = 0; s < p->steps; s++, a += p->a_step) {
        const uint8_t *b = find_step(p, s);
        if (p->strip)
            weigh_rows(p->strip, p->weighed);
        fetch_across(p->fetcher, times);
        AMX_LOAD_ROWS(4, a, p->a_stride);
        AMX_LOAD_ROWS(5, b, p->b_stride);
        AMX_DOT_BF16(0, 4, 5);
        if (n == 1)
            continue;
        fetch_across(p->fetcher, times);
        AMX_LOAD_ROWS(6, b + p->b_next, p->b_stride);
        AMX_DOT_BF16(1, 4, 6);
        if (n == 2)
            continue;
        fetch_across(p->fetcher, times);
        AMX_LOAD_ROWS(7, b + 2 * p->b_next, p->b_stride);
        AMX_DOT_BF16(2, 4, 7);
        if (n == 3)
            continue;
        fetch_across(p->fetcher, times);
        AMX_LOAD_ROWS(5, b + 3 * p->b_next, p->b_stride);
        AMX_DOT_BF16(3, 4, 5);
    }
    AMX_STORE_ROWS(0, p->c, p->c_stride);
    if (n > 1)
        AMX_STORE_ROWS(1, p->c + p->c_right, p->c_stride);
    if (n > 2)
        AMX_STORE_ROWS(2, p->c + 2 * p->c_right, p->c_stride);
    if (n > 3)
        AMX_STORE_ROWS(3, p->c + 3 * p->c_right, p->c_stride);
}

/* Two groups of rows, n tiles of b. One of a and b stays in L1, the other one comes from L2: a if `once_a`.
 */
#define LOAD_A(tile, address)                                 \
    do {                                                      \
        if (once_a)                                           \
            AMX_LOAD_ROWS_ONCE(tile, (address), p->a_stride); \
        else                                                  \
            AMX_LOAD_ROWS(tile, (address), p->a_stride);      \
    } while (0)
#define LOAD_B(tile, address)                                 \
    do {                                                      \
        if (once_a)                                           \
            AMX_LOAD_ROWS(tile, (address), p->b_stride);      \
        else                                                  \
            AMX_LOAD_ROWS_ONCE(tile, (address), p->b_stride); \
    } while (0)
INLINE void multiply_groups(const struct tiles *p, uint32_t n, bool once_a)
{
    const uint32_t times = find_times(p, 1);
    const uint8_t *a = p->a;
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (uint32_t s = 0; s < p->steps; s++, a += p->a_step) {
        const uint8_t *b = find_step(p, s);
        if (p->strip)
            weigh_rows(p->strip, p->weighed);
        fetch_across(p->fetcher, times);
        LOAD_B(6, b);
        LOAD_A(4, a);
        AMX_DOT_BF16(0, 4, 6);
        LOAD_A(5, a + p->a_next);
        AMX_DOT_BF16(2, 5, 6);
        if (n == 1)
            continue;
        LOAD_B(7, b + p->b_next);
        AMX_DOT_BF16(1, 4, 7);
        AMX_DOT_BF16(3, 5, 7);
    }
    AMX_STORE_ROWS(0, p->c, p->c_stride);
    AMX_STORE_ROWS(2, p->c + p->c_down, p->c_stride);
    if (n > 1) {
        AMX_STORE_ROWS(1, p->c + p->c_right, p->c_stride);
        AMX_STORE_ROWS(3, p->c + p->c_down + p->c_right, p->c_stride);
    }
}

static NOINLINE void multiply_two(const struct tiles *p, uint32_t n)
{
    if (p->once_a)
        multiply_groups(p, n, true);
    else
        multiply_groups(p, n, false);
}

/* Two groups of rows and two tiles of b, one after the other: sums of the first are stored while the second
 * is multiplied. Rows of p->strip, which see all of it, are weighed four at a time between the products: less
 * at once than multiply_two() has. */
static NOINLINE void multiply_beside(const struct tiles *p)
{
    const uint32_t times = find_times(p, 1), steps = p->steps, batches = p->strip->n / 4;
    const uint64_t b_step = p->b_step, a_step = p->a_step, a_next = p->a_next, c_stride = p->c_stride;
    const uint8_t *a = p->a, *b = p->b;
    uint8_t *c = p->c;
    uint32_t row = 0;
    AMX_ZERO(0);
    AMX_ZERO(1);
    for (uint32_t s = 0, due = batches; s < steps; s++, due += batches, a += a_step, b += b_step) {
        fetch_across(p->fetcher, times);
        AMX_LOAD_ROWS_ONCE(6, b, 64);
        AMX_LOAD_ROWS(4, a, 64);
        AMX_DOT_BF16(0, 4, 6);
        AMX_LOAD_ROWS(5, a + a_next, 64);
        AMX_DOT_BF16(1, 5, 6);
        for (; due >= 2 * steps; due -= 2 * steps, row += 4)
            weigh_inner(p->strip, row, WEIGHTS_PAIRS);
    }
    a = p->a;
    b = p->b + p->b_next;
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (uint32_t s = 0, due = batches; s < steps; s++, due += batches, a += a_step, b += b_step) {
        AMX_LOAD_ROWS_ONCE(6, b, 64);
        AMX_LOAD_ROWS(4, a, 64);
        AMX_DOT_BF16(2, 4, 6);
        if (s == 0)
            AMX_STORE_ROWS(0, c, c_stride);
        AMX_LOAD_ROWS(5, a + a_next, 64);
        AMX_DOT_BF16(3, 5, 6);
        if (s == 0)
            AMX_STORE_ROWS(1, c + p->c_down, c_stride);
        for (; due >= 2 * steps; due -= 2 * steps, row += 4)
            weigh_inner(p->strip, row, WEIGHTS_PAIRS);
    }
    AMX_STORE_ROWS(2, c + p->c_right, c_stride);
    AMX_STORE_ROWS(3, c + p->c_down + p->c_right, c_stride);
    for (; row < 4 * batches; row += 4)
        weigh_inner(p->strip, row, WEIGHTS_PAIRS);
}

static void multiply_tiles(const struct tiles *p, uint32_t n)
{
    if (p->groups > 1)
        multiply_two(p, n);
    else
        multiply_one(p, n);
}

/* Scores of two tiles of keys, with weights beside them. */
static void score_tiles(const struct tiles *p)
{
    const bool beside = p->strip && p->strip->inner && p->strip->n % 4 == 0 && p->groups == 2;
    if (!beside || p->steps > MOST_STEPS_BESIDE || weights_form(p->strip) != WEIGHTS_PAIRS) {
        multiply_tiles(p, 2);
        return;
    }
    multiply_beside(p);
    p->strip->done = p->strip->n;
}

#endif
