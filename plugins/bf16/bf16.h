/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16.h - how this plugin holds numbers; plugins/common/bf16/layout_tmpl.h says what panels and rows are.
 *
 * Weights      bfloat16: those of the source, or float16 and float32 rounded to nearest, ties to even.
 *              A panel is [32 columns][2 tiles]; K and rows are filled up with 0.
 */
#ifndef KT_PLUGINS_BF16_H
#define KT_PLUGINS_BF16_H

#define TILE_COLUMNS 32
#include "plugins/common/gemm/geometry.h"
#include "plugins/common/plugin/instance.h"

#define BACKEND "bf16"
#define FORM "bf16-1" /* kt_layout.form: a new number when a packed byte changes its meaning */
#define OPS_NAME(level) bf16_ops_##level
#define ROW_SUMS 0

struct bf16_instance {
    struct instance base;
    bool refuses_wider; /* weights of more precision than its own */
};

static inline uint64_t panel_size(const struct kt_layout *layout, enum kt_stage stage)
{
    return stage_tiles(layout, stage) * PAIR_SIZE;
}

/* The functions of struct kt_ops that all levels share; layouts by the form of activations. */
enum kt_status bf16_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status bf16_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status bf16_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                               const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                               float *out, struct kt_error *error);
void bf16_cut(void *instance, const struct kt_cut *job);
enum kt_status bf16_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error);

/* One per level, in kernel_LEVEL.c. */
extern const struct kt_ops bf16_ops_scalar;
extern const struct kt_ops bf16_ops_avx2;
extern const struct kt_ops bf16_ops_avx512;
extern const struct kt_ops bf16_ops_avx512_bf16;
extern const struct kt_ops bf16_ops_amx;
extern const struct kt_ops bf16_ops_neon;
extern const struct kt_ops bf16_ops_arm_bf16;

#endif
