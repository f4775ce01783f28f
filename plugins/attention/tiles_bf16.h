/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/tiles_bf16.h - struct tiles multiplied by vdpbf16ps: 8 or 4 rows and up to two tiles of b at
 * once. Rows behind the last, up to whole fours, are multiplied as well: tiles have them.
 */
#ifndef KT_PLUGINS_ATTENTION_TILES_BF16_H
#define KT_PLUGINS_ATTENTION_TILES_BF16_H

#include "plugins/attention/pairs_weights.h"
#include "plugins/attention/tiles.h"

#define MOST_ACROSS(groups) 2u
#define TILES_ROWS 4
#define TILES_CODES 1

/* Rows `row` and those after it, of one group. */
INLINE void multiply_rows_of(const struct tiles *p, uint32_t row, unsigned rows, unsigned n)
{
    const uint8_t *a = p->a + row / LINE * p->a_next + row % LINE * p->a_stride;
    uint8_t *c = p->c + row / LINE * p->c_down + row % LINE * p->c_stride;
    const uint64_t a_stride = p->a_stride, b_stride = p->b_stride, b_next = p->b_next;
    vf sum[8][2];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned j = 0; j < n; j++)
            sum[r][j] = vf_set(0.0f);
    const uint32_t each = divide_up(p->share, STEP / 2); /* a burst would be dropped */
    for (uint32_t s = 0; s < p->steps; s++, a += p->a_step) {
        const uint8_t *b = find_step(p, s);
        struct stretch ahead = take_lines(p->fetcher, row == 0 ? each * (STEP / 2) : 0);
        for (uint32_t k = 0; k < STEP / 2; k++, b += b_stride) {
            vi line[2];
            fetch_some(&ahead, each);
            UNROLL_FOR (unsigned j = 0; j < n; j++)
                line[j] = vi_load(b + j * b_next);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                vi pair = splat4(a + r * a_stride + k * 4);
                UNROLL_FOR (unsigned j = 0; j < n; j++)
                    sum[r][j] = vf_add_pairs(sum[r][j], line[j], pair);
            }
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned j = 0; j < n; j++)
            vf_store(c + r * p->c_stride + j * p->c_right, sum[r][j]);
}

#define MULTIPLY_ROWS_OF(rows, n)                                                      \
    static NOINLINE void multiply_##rows##_by_##n(const struct tiles *p, uint32_t row) \
    {                                                                                  \
        multiply_rows_of(p, row, rows, n);                                             \
    }
MULTIPLY_ROWS_OF(4, 1)
MULTIPLY_ROWS_OF(4, 2)
MULTIPLY_ROWS_OF(8, 1)
MULTIPLY_ROWS_OF(8, 2)

static void multiply_tiles(const struct tiles *p, uint32_t n)
{
    for (uint32_t row = 0; row < p->rows; row += 8) {
        if (p->rows - row > 4)
            (n > 1 ? multiply_8_by_2 : multiply_8_by_1)(p, row);
        else
            (n > 1 ? multiply_4_by_2 : multiply_4_by_1)(p, row);
    }
    if (p->strip)
        weigh_rows(p->strip, p->strip->n);
}

static void score_tiles(const struct tiles *p)
{
    multiply_tiles(p, 2);
}

#endif
