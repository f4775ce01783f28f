/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/tunables.h - what `kt tune` may set of a level (struct kt_tunable), by the order of its list.
 * Templates say which of them they read; a level's own constants are the standards.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_TUNABLES_H
#define KT_PLUGINS_COMMON_GEMM_TUNABLES_H

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/prefetch.h"

#include <kt/plugin.h>

enum {
    TUNED_PREFETCH,
    TUNED_ROWS, /* PACED_MIN_ROWS, DEQUANT_MIN_ROWS or TILE_ROWS */
    TUNED_PIECE /* of AMX tiles */
};

#define TUNABLE_PREFETCH_LEAST 64
#define TUNABLE_PREFETCH_MOST 65536
#define TUNABLE_ROWS_MOST 2048 /* more than a product has: never */

/* By the machine's distance, where a level has none of its own. */
#define TUNABLE_PREFETCH(standard_bytes)                                                                   \
    {                                                                                                      \
        .name = "prefetch_bytes", .what = "bytes that products of few rows prefetch ahead",                \
        .minimum = TUNABLE_PREFETCH_LEAST, .maximum = TUNABLE_PREFETCH_MOST, .standard = (standard_bytes), \
        .flags = KT_TUNABLE_DOUBLING                                                                       \
    }

#define TUNABLE_PACED_ROWS(standard_rows, flag)                                  \
    {                                                                            \
        .name = "paced_min_rows",                                                \
        .what = "rows from which products prefetch far ahead, in step with"      \
                " the work",                                                     \
        .minimum = 1, .maximum = TUNABLE_ROWS_MOST, .standard = (standard_rows), \
        .flags = KT_TUNABLE_DOUBLING | (flag)                                    \
    }

#define TUNABLE_DEQUANT_ROWS(standard_rows)                                      \
    {                                                                            \
        .name = "dequant_min_rows",                                              \
        .what = "rows from which products multiply dequantized panels, not"      \
                " codes",                                                        \
        .minimum = 1, .maximum = TUNABLE_ROWS_MOST, .standard = (standard_rows), \
        .flags = KT_TUNABLE_DOUBLING | KT_TUNABLE_BITS                           \
    }

/* On AMX tiles: most: 1 more than the rows that the other way takes. */
#define TUNABLE_TILE_ROWS(most, flag)                                                                        \
    {                                                                                                        \
        .name = "tile_min_rows", .what = "rows from which products go by tiles for many rows", .minimum = 1, \
        .maximum = (most), .standard = 0, .flags = (flag)                                                    \
    }

/* Sums wait in scratch from piece to piece, so bits do not change. */
#define PIECE_TILES 8
#define PIECE_TILES_MOST 16
#define TUNABLE_PIECE                                                                                       \
    {                                                                                                       \
        .name = "piece_tiles", .what = "tiles of K that all rows of a product pass together, from 33 rows", \
        .minimum = 4, .maximum = PIECE_TILES_MOST, .standard = PIECE_TILES, .flags = KT_TUNABLE_DOUBLING    \
    }

/* The distance in force; `standard`: the level's own, 0: the machine's (struct kt_caps.stream_ahead), which
 * may be unknown. */
static inline uint64_t prefetch_distance(const struct kt_layout *layout, uint64_t standard)
{
    uint64_t tuned = layout->tuned[TUNED_PREFETCH];
    if (tuned)
        return tuned;
    if (standard)
        return standard;
    return layout->words[WORD_PREFETCH] ? layout->words[WORD_PREFETCH] : STREAMED_DISTANCE;
}

/* Writes into the layout what is in force. */
static inline void fill_tuned(struct kt_layout *layout, uint64_t prefetch_bytes, uint64_t min_rows)
{
    layout->tuned[TUNED_PREFETCH] = prefetch_distance(layout, prefetch_bytes);
    if (!layout->tuned[TUNED_ROWS])
        layout->tuned[TUNED_ROWS] = min_rows < TUNABLE_ROWS_MOST ? min_rows : TUNABLE_ROWS_MOST;
}

#endif
