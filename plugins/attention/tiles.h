/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/tiles.h - products of tiles of bfloat16 pairs. Parameters: those of simd/simd.h.
 *
 *     A tile    16 rows of 64 bytes
 *     A of it   16 rows of 32 numbers
 *     B of it   16 lines of 16 pairs: numbers 2 l and 2 l + 1 of 16 columns
 *     sums      16 rows of 16 float32
 */
#ifndef KT_PLUGINS_ATTENTION_TILES_H
#define KT_PLUGINS_ATTENTION_TILES_H

#include "plugins/attention/attention.h"
#include "plugins/common/simd/simd.h"

#include <stdbool.h>

#define TILE 1024
#define STEP 32              /* numbers that a tile of A has of a row: what a step multiplies */
#define STEPS (CHUNK / STEP) /* of a chunk's keys */
#define MOST_STRIPS STEPS
#define WEIGHTS_ROW \
    (CHUNK * 2 + 64) /* bytes from a row of weights to the next: not all in the same lines of L1 */
#define FLOATS_ROW (CHUNK + LINE) /* the same of weights in float32, in numbers */

/* Memory that will be read next, a few lines with each step: strip after strip (take_lines), or some strips
 * at once (fetch_across). */
struct fetcher {
    const uint8_t *strip[MOST_STRIPS];
    uint32_t lines;  /* of each strip */
    uint32_t across; /* strips at once */
    uint32_t n, at, line;
};

/* The next line of each of some strips, some times: as many streams as strips, which the hardware follows. */
INLINE void fetch_across(struct fetcher *f, uint32_t times)
{
    for (; times > 0 && f->at < f->n; times--) {
        const uint32_t end = f->n - f->at < f->across ? f->n : f->at + f->across;
        if (end - f->at == MOST_STRIPS) { /* without a loop: half of the cost where lines are in L2 already */
            UNROLL_FOR (uint32_t i = 0; i < MOST_STRIPS; i++)
                PREFETCH(f->strip[i] + (uint64_t)f->line * 64);
        } else {
            for (uint32_t i = f->at; i < end; i++)
                PREFETCH(f->strip[i] + (uint64_t)f->line * 64);
        }
        if (++f->line == f->lines) {
            f->line = 0;
            f->at = end;
        }
    }
}

/* Lines from `at` to below `end`, one of them with each call. */
struct stretch {
    const uint8_t *at, *end;
};

/* The next `lines` of the fetcher, or what is left of its strip. */
INLINE struct stretch take_lines(struct fetcher *f, uint32_t lines)
{
    if (f->at == f->n)
        return (struct stretch){NULL, NULL};
    uint32_t left = f->lines - f->line;
    const uint8_t *at = f->strip[f->at] + (uint64_t)f->line * 64;
    lines = lines < left ? lines : left;
    f->line += lines;
    if (f->line == f->lines) {
        f->line = 0;
        f->at++;
    }
    return (struct stretch){at, at + (uint64_t)lines * 64};
}

INLINE void fetch_some(struct stretch *s, uint32_t lines)
{
    for (; lines > 0 && s->at != s->end; lines--, s->at += 64)
        PREFETCH(s->at);
}

/*
 * c[i][j] = sum over steps of a[i] * b[j], of one or two groups i of rows and some tiles j. All distances are
 * in bytes: `stride` from a row or line to the next, `step` to the tile of the next step, a_next and c_down
 * from group to group, b_next and c_right from tile to tile.
 */
struct tiles {
    const uint8_t *a, *b;
    const uint8_t *const *b_at; /* not NULL: tiles of each step, b_first bytes before the first */
    uint8_t *c;
    uint64_t a_stride, a_step, a_next;
    uint64_t b_stride, b_step, b_next;
    uint64_t c_stride, c_down, c_right;
    uint64_t b_first; /* with b_at: added to each */
    bool once_a;      /* a is read once, b again and again; else the other way round */
    uint32_t steps, groups;
    uint32_t rows;  /* of both groups, those that are wanted */
    uint32_t share; /* lines fetched with a step */
    struct fetcher *fetcher;
    struct strip *strip; /* not NULL: rows that are weighed with each step */
    uint32_t weighed;    /* so many */
};

INLINE const uint8_t *find_step(const struct tiles *p, uint32_t step)
{
    return p->b_at ? p->b_at[step] + p->b_first : p->b + step * p->b_step;
}

/* Of n tiles of b, MOST_ACROSS(groups) at most; in the header of the level's tiles. */
static void multiply_tiles(const struct tiles *p, uint32_t n);

#endif
