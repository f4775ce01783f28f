/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rawint4.h - how this plugin holds numbers: the 4 bits and the scales of the source, no more and no less.
 * plugins/common/coded/geometry_tmpl.h describes panels, bf16/layout_tmpl.h rows.
 *
 *   Formats   int4: scale * (code - zero), codes 0..15, zeros as bytes or 8; f4_e2m1: scale times one of 0
 *             0.5 1 1.5 2 3 4 6 or its negative.
 *   Codes     a row's 8 columns in 4 bytes: columns 0 2 4 6 in the low half, 1 3 5 7 in the high half, each
 *             in 4 bits, the first lowest. So a shift and a mask leave two neighbors side by side in
 *             halves, where a line of bfloat16 has them.
 */
#ifndef KT_PLUGINS_RAWINT4_H
#define KT_PLUGINS_RAWINT4_H

#define TILE_COLUMNS 32
#define CODES_SIZE 256 /* of 16 rows x 32 columns */

/* f4_e2m1 is published in groups of 32 only. */
#define GROUP_COLUMNS(dtype) ((dtype) == KT_DTYPE_INT4 ? CODE_COLUMNS : TILE_COLUMNS)

#include "plugins/common/coded/geometry_tmpl.h"
#include "plugins/common/plugin/instance.h"

#define BACKEND "rawint4"
#define FORM "rawint4-1" /* kt_layout.form: a new number when a packed byte changes its meaning */
#define OPS_NAME(level) rawint4_ops_##level
#define ROW_SUMS 1
#define COUNT_SUMS(layout, stage) (find_coded(layout, stage).subtile ? CODE_VECTORS : 1)

struct rawint4_instance {
    struct instance base;
    bool int8_rows; /* activations become int8 */
};

/* Encodings: bit 0 says what a code stands for, bits 1 and 2 which activations it is multiplied with
 * (encoding.h), bit 3 that groups end inside a tile. */
enum { ENCODING_INT4, ENCODING_E2M1, SUBTILE_GROUPS = 8 };
#define NO_ZERO(encoding) (((encoding)&1) == ENCODING_INT4 ? 8.0f : 0.0f)

static inline int find_encoding(uint32_t dtype)
{
    return dtype == KT_DTYPE_INT4 ? ENCODING_INT4 : ENCODING_E2M1;
}

/* bfloat16 of the codes of f4_e2m1. */
#define E2M1_TABLE                                                                                      \
    {                                                                                                   \
        0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0, \
            0xc000, 0xc040, 0xc080, 0xc0c0                                                              \
    }

/* Bytes of 32 activations as fixed-point numbers: fixed_point_rows.h. */
#define FIXED_POINT_BYTES 64

/* With activations = int8: where a row's sums stand, behind the bytes of its `filled` tiles. */
#define INT8_SUMS(row, filled) ((const float *)(const void *)((row) + (filled)*TILE_COLUMNS))

/* The functions of struct kt_ops that all levels share; layouts by the form of activations. */
enum kt_status rawint4_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status rawint4_layout_extra(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status rawint4_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status rawint4_layout_tiles(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status rawint4_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                  const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                  float *out, struct kt_error *error);
void rawint4_cut(void *instance, const struct kt_cut *job);
enum kt_status rawint4_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error);

/* One per level, in kernel_LEVEL.c. */
extern const struct kt_ops rawint4_ops_scalar;
extern const struct kt_ops rawint4_ops_avx2;
extern const struct kt_ops rawint4_ops_avx512;
extern const struct kt_ops rawint4_ops_avx512_bf16;
extern const struct kt_ops rawint4_ops_amx;

#endif
