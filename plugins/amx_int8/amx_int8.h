/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_int8.h - how this plugin holds weights; plugins/common/tiles8.h says the rest.
 *
 * Numbers   w = scale * q per row of weights, q within +-127: y = (scale_x * scale_w) * (sum of
 *           q_x * q_w over all of K, exact in 32 bits).
 * Panels    [64 columns][2 tiles of 1 KB], then 32 float scales. K is filled up with code 128 (weight
 *           0), rows with weight and scale 0.
 */
#ifndef KT_PLUGINS_AMX_INT8_H
#define KT_PLUGINS_AMX_INT8_H

#include "plugins/common/tiles8.h"

#define BACKEND "amx_int8"
#define FORM "amx_int8-1" /* kt_layout.form: another number where a packed byte means something else */
#define OPS_NAME(level) amx_int8_ops_##level
#define ROW_SUMS 0

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage_tiles(layout, stage) * PAIR_SIZE + SCALES_SIZE;
}

/* The functions of struct kt_ops that all levels share. */
enum kt_status amx_int8_layout(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status amx_int8_weight_row(void *instance, const struct kt_layout *layout,
                                   const void *packed, const struct kt_expert *source,
                                   enum kt_projection projection, uint64_t row, float *out,
                                   struct kt_error *error);
void amx_int8_cut(void *instance, const struct kt_cut *job);

/* One per level, in kernel_LEVEL.c. */
extern const struct kt_ops amx_int8_ops_scalar;
extern const struct kt_ops amx_int8_ops_avx2;
extern const struct kt_ops amx_int8_ops_avx_vnni;
extern const struct kt_ops amx_int8_ops_avx512;
extern const struct kt_ops amx_int8_ops_avx512_vnni;
extern const struct kt_ops amx_int8_ops_amx;

#endif
