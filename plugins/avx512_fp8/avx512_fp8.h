/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avx512_fp8.h - how this plugin holds numbers: the 8 bits and the scales of the source, no more and no
 * less. plugins/common/coded/geometry_tmpl.h describes panels, bf16/layout_tmpl.h rows.
 *
 *   Format    f8_e4m3: a sign, 4 bits of exponent with a bias of 7, 3 of fraction; subnormal numbers, no
 *             infinity, NaN where all bits but the sign are set. Its scales are for blocks, rows, the whole
 *             matrix, or groups of 32 columns (MXFP8).
 *   Codes     a line of 64 bytes has columns 4i..4i+3 of 16 rows: 16 bytes for 4 rows each, columns 4i and
 *             4i+1 of these rows, then 4i+2 and 4i+3. So two interleavings of bytes, which work within 16
 *             bytes, leave two lines of 16-bit numbers as a tile has them.
 *   Flag      1 in the last byte of a panel's scales: there is a NaN among its codes. Levels that make
 *             float32 of codes by shifting their bits handle NaN only there.
 */
#ifndef KT_PLUGINS_AVX512_FP8_H
#define KT_PLUGINS_AVX512_FP8_H

#define TILE_COLUMNS 32
#define CODES_SIZE 512 /* of 16 rows x 32 columns */
#define PANEL_FLAGS 1
#define ROW_SCALES 1 /* where a row has one scale, it multiplies sums */

#include "plugins/common/coded/geometry_tmpl.h"
#include "plugins/common/plugin/instance.h"

#define BACKEND "avx512_fp8"
#define FORM "avx512_fp8-1" /* kt_layout.form: a new number when a packed byte changes its meaning */
#define OPS_NAME(level) avx512_fp8_ops_##level
#define ROW_SUMS 0

/* Encodings of panels, by their flag. */
enum { ENCODING_NUMBERS, ENCODING_NAN };
/* What coded/gemv_tmpl.h asks: codes are signed, and nothing is to be taken off them. */
#define OFFSETS(encoding) 0
#define CODE_ZERO(encoding) ((void)(encoding), 0.0f)
#define NO_ZERO(encoding) 0.0f

static inline int find_encoding(uint32_t dtype)
{
    (void)dtype;
    return ENCODING_NUMBERS;
}

/* Where a code is in its line. */
static inline uint64_t find_code(uint64_t row, uint64_t column)
{
    return row / 4 * 16 + column % 4 / 2 * 8 + row % 4 * 2 + column % 2;
}

/* Codes without their sign as bfloat16, which is exact: from 8 on, 0x3c00 + 16 * code. */
static const uint16_t bf16_of_codes[128] = {
    0x0000, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0x3c80, 0x3c90, 0x3ca0, 0x3cb0, 0x3cc0,
    0x3cd0, 0x3ce0, 0x3cf0, 0x3d00, 0x3d10, 0x3d20, 0x3d30, 0x3d40, 0x3d50, 0x3d60, 0x3d70, 0x3d80, 0x3d90,
    0x3da0, 0x3db0, 0x3dc0, 0x3dd0, 0x3de0, 0x3df0, 0x3e00, 0x3e10, 0x3e20, 0x3e30, 0x3e40, 0x3e50, 0x3e60,
    0x3e70, 0x3e80, 0x3e90, 0x3ea0, 0x3eb0, 0x3ec0, 0x3ed0, 0x3ee0, 0x3ef0, 0x3f00, 0x3f10, 0x3f20, 0x3f30,
    0x3f40, 0x3f50, 0x3f60, 0x3f70, 0x3f80, 0x3f90, 0x3fa0, 0x3fb0, 0x3fc0, 0x3fd0, 0x3fe0, 0x3ff0, 0x4000,
    0x4010, 0x4020, 0x4030, 0x4040, 0x4050, 0x4060, 0x4070, 0x4080, 0x4090, 0x40a0, 0x40b0, 0x40c0, 0x40d0,
    0x40e0, 0x40f0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x4180, 0x4190, 0x41a0,
    0x41b0, 0x41c0, 0x41d0, 0x41e0, 0x41f0, 0x4200, 0x4210, 0x4220, 0x4230, 0x4240, 0x4250, 0x4260, 0x4270,
    0x4280, 0x4290, 0x42a0, 0x42b0, 0x42c0, 0x42d0, 0x42e0, 0x42f0, 0x4300, 0x4310, 0x4320, 0x4330, 0x4340,
    0x4350, 0x4360, 0x4370, 0x4380, 0x4390, 0x43a0, 0x43b0, 0x43c0, 0x43d0, 0x43e0, 0x7fc0,
};

static inline void set_flags(const struct coded *coded, unsigned found, uint8_t *panel)
{
    panel[coded->scales_size - 1] = (uint8_t)found;
}

/* Sets the flag of a panel whose codes are packed. */
static inline void flag_panel(const struct coded *coded, uint8_t *panel)
{
    const uint8_t *codes = panel + coded->scales_size + coded->zeros_size;
    uint8_t found[64] = {0}, any = 0;
    for (const uint8_t *end = codes + coded->tiles * 2 * CODES_SIZE; codes < end; codes += 64)
        for (int i = 0; i < 64; i++)
            found[i] |= (codes[i] & 0x7f) == 0x7f;
    for (int i = 0; i < 64; i++)
        any |= found[i];
    set_flags(coded, any, panel);
}

/* The functions of struct kt_ops that all levels share; layouts by the form of activations. */
enum kt_status avx512_fp8_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status avx512_fp8_layout_extra(void *instance, struct kt_layout *layout, struct kt_error *error);
enum kt_status avx512_fp8_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error);
#define avx512_fp8_layout_tiles avx512_fp8_layout_pairs
enum kt_status avx512_fp8_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                     const struct kt_expert *source, enum kt_projection projection,
                                     uint64_t row, float *out, struct kt_error *error);
void avx512_fp8_cut(void *instance, const struct kt_cut *job);
enum kt_status avx512_fp8_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error);

/* One per level, in kernel_LEVEL.c. */
extern const struct kt_ops avx512_fp8_ops_scalar;
extern const struct kt_ops avx512_fp8_ops_avx2;
extern const struct kt_ops avx512_fp8_ops_avx512;
extern const struct kt_ops avx512_fp8_ops_avx512_bf16;
extern const struct kt_ops avx512_fp8_ops_amx;

#endif
