/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/rows.h - rows of int8 activations, and tiles of int8 weights.
 *
 *   Weights      a tile has 64 columns: line i holds columns 4i..4i+3 of all rows, 4 bytes each, as codes q
 *                + 128.
 *   Activations  x = scale * q for a row, q within +-127: int8[K filled up to 64], a struct row_meta, then
 *                what the family adds, filled up to an odd number of lines: with 4096 bytes, all rows would
 *                compete for one set of the cache. Level amx puts 16 such rows together: tile after tile of
 *                16 rows x 64 columns in 1 KB, then 16 struct row_meta; stage 1 packs its rows so,
 *                stage 0 gathers them so.
 *   h            float32, [panel][row][16]: a product writes one stream and packing reads one. Rows are
 *                filled up to 16, and the filling is never used.
 */
#ifndef KT_PLUGINS_COMMON_INT8_ROWS_H
#define KT_PLUGINS_COMMON_INT8_ROWS_H

#include <stdint.h>

/* Columns of the sums that a row_meta may be followed by, see int8/activations_tmpl.h. */
#define SUM_COLUMNS 32

/* Longest K whose sums fit in 32 bits: 127 * 128 * K < 2^31. */
#define MAX_K (UINT64_C(1) << 17)

struct row_meta {
    float scale;
    int32_t sum128; /* 128 * sum of q */
};

#endif
