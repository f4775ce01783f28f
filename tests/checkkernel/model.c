/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - products in float64 of the numbers that a kernel multiplies, and how far float32 may be off.
 *
 * A sum of n float32 terms, added one after another, is off by at most (n + 2) * 2^-24 * sum|terms| (to
 * first order), whatever the order; a fused multiply-add rounds once. Quantised formats add one term
 * per group of columns (its integer part is exact), so n is taken from the format: K/32 groups, one
 * more term per group where there are minima, and a few for superblocks. Minima make terms larger than
 * the weights that result: |w| + 2 |minimum|, see minima.c. Without minima a weight may still be a point of a
 * grid and a shift, none of them larger than twice the weight.
 * Activations that are rounded to bfloat16 are read as such: their rounding is checked by itself, to the
 * bit, and is no part of the bound.
 */
#include "plugins/llamafile/llamafile.h"
#include "tests/checkkernel/check.h"

#include <kt/kt.h>
#include <math.h>
#include <string.h>

#define HALF_ULP 0x1p-24

bool model_lists(const char *list, const struct kt_level *level)
{
    size_t length = strlen(level->name);
    for (const char *at = list; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strcspn(at, " ") == length && memcmp(at, level->name, length) == 0)
            return true;
    }
    return false;
}

/* Such a layout multiplies with another instruction than its level. */
bool model_is_int8(const struct check *check)
{
    return check->layout.instruction != NULL;
}

uint32_t model_turn(const struct check *check)
{
    for (const struct turn *turn = check->model->turns; turn && turn->level; turn++)
        if (strcmp(turn->level, check->level->name) == 0 && !model_is_int8(check))
            return turn->rows;
    return UINT32_MAX;
}

struct value model_dot(const struct check *check, enum kt_projection projection, uint64_t row,
                       const double *x)
{
    const struct kt_shape *shape = &check->layout.shape;
    const struct model *model = check->model;
    uint64_t k = projection_cols(shape, projection);
    const float *w = check->weights[projection] + row * k;
    const float *minimum = check->minima[projection] ? check->minima[projection] + row * k : w;
    uint32_t elements, bytes;
    double sum = 0, terms = 0, x_sum = 0, w_sum = 0;
    kt_dtype_block(shape->format[projection].dtype, &elements, &bytes);
    for (uint64_t i = 0; i < k; i++) {
        double term = (double)w[i] * x[i];
        sum += term;
        terms += fabs(term) + (elements > 1 ? 2 * fabs((double)minimum[i] * x[i]) : 0);
        x_sum += fabs(x[i]);
        w_sum += fabs((double)w[i]);
    }
    double n = elements == 1 ? (double)k * model->terms + 3 : (double)k / 16 + 12;
    if (strcmp(check->level->name, "arm_bf16") == 0) /* bfdot rounds to odd: by a whole unit */
        n *= 2;
    double least = 0x1p-126;
    if (model_lists(model->own_order, check->level)) /* a factor, a product or a sum that is taken for 0 */
        least *= x_sum + w_sum + 3 * (double)k + 1;
    return (struct value){sum, n * HALF_ULP * terms + least};
}

/* ---- llamafile ---- */

static float load_float(const uint8_t *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Are the sums of a half group what its q make? */
static bool check_sums(const uint8_t *block, unsigned half, float scale)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + 16 * half;
    int pair[2] = {0, 0};
    int16_t stored[2];
    for (int i = 0; i < 16; i++)
        pair[i / 2 % 2] += q[i];
    memcpy(stored, block + ACT_PAIR16 + 4 * half, sizeof stored);
    return stored[0] == -pair[0] && stored[1] == -pair[1] &&
           load_float(block + ACT_SUM16 + 4 * half) == scale * (float)(pair[0] + pair[1]);
}

/* A group: |x - scale q| <= scale / 2, but for the rounding of scale, 127 / max and the product. */
static bool read_group(const uint8_t *block, unsigned g, const float *x, uint64_t n, double *out)
{
    const int8_t *q = (const int8_t *)block + ACT_Q + GROUP * g;
    float scale = load_float(block + ACT_SCALE + 4 * g);
    int sum = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        double value = (double)scale * q[i], wanted = i < n ? (double)x[i] : 0;
        if (q[i] == -128 || fabs(value - wanted) > (double)scale * 0.50002 + 0x1p-118)
            return false;
        sum += q[i];
        if (i < n)
            out[i] = value;
    }
    return load_float(block + ACT_SUM32 + 4 * g) == scale * (float)sum && check_sums(block, 2 * g, scale) &&
           check_sums(block, 2 * g + 1, scale);
}

static bool read_llamafile(const struct kt_layout *layout, enum kt_projection projection,
                           const uint8_t *packed, const float *x, enum way way, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    if (way == WAY_ROUNDED) {
        bool tiled = stage == KT_STAGE_DOWN;
        return model_read_pairs(k, tiled, packed + (tiled ? 0 : pairs_offset(layout, stage)), x, out);
    }
    if (dtype_is_float(layout->shape.format[projection].dtype)) {
        packed += floats_offset(layout, stage);
        for (uint64_t i = 0; i < k; i++)
            out[i] = (double)load_float(packed + 4 * i);
        return memcmp(packed, x, k * sizeof *x) == 0;
    }
    for (uint64_t i = 0; i < k; i += GROUP)
        if (!read_group(packed + i / SUPERBLOCK * ACT_SIZE, (unsigned)(i % SUPERBLOCK / GROUP), x + i,
                        k - i < GROUP ? k - i : GROUP, out + i))
            return false;
    return true;
}

static bool read_reference(const struct kt_layout *layout, enum kt_projection projection,
                           const uint8_t *packed, const float *x, enum way way, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    (void)way;
    for (uint64_t i = 0; i < k; i++)
        out[i] = (double)load_float(packed + 4 * i);
    return memcmp(packed, x, k * sizeof *x) == 0;
}

static float keep(float value)
{
    return value;
}

/* ---- backends with bfloat16 activations: see model_scaled.c ---- */

float round_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        bits |= 0x400000;
    else if ((bits & 0xffff) > 0x8000 || (bits & 0x1ffff) == 0x18000)
        bits += 0x8000;
    bits &= 0xffff0000;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const uint32_t all_dtypes[] = {
    KT_DTYPE_F32,     KT_DTYPE_F16,    KT_DTYPE_BF16,   KT_DTYPE_Q4_0,    KT_DTYPE_Q4_1,  KT_DTYPE_Q5_0,
    KT_DTYPE_Q5_1,    KT_DTYPE_Q8_0,   KT_DTYPE_Q2_K,   KT_DTYPE_Q3_K,    KT_DTYPE_Q4_K,  KT_DTYPE_Q5_K,
    KT_DTYPE_Q6_K,    KT_DTYPE_IQ4_NL, KT_DTYPE_IQ4_XS, KT_DTYPE_MXFP4,   KT_DTYPE_IQ1_S, KT_DTYPE_IQ1_M,
    KT_DTYPE_IQ2_XXS, KT_DTYPE_IQ2_XS, KT_DTYPE_IQ2_S,  KT_DTYPE_IQ3_XXS, KT_DTYPE_IQ3_S, KT_DTYPE_TQ1_0,
    KT_DTYPE_TQ2_0,   KT_DTYPE_NVFP4,  KT_DTYPE_Q1_0,   KT_DTYPE_Q2_0,    KT_DTYPE_NONE,
};
static const uint32_t plain_dtypes[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16, KT_DTYPE_NONE};
static const uint32_t dtypes_of_8[] = {KT_DTYPE_F8_E4M3, KT_DTYPE_NONE};
static const uint32_t dtypes_of_4[] = {KT_DTYPE_INT4, KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};

static const struct turn llamafile_turns[] = {{"amx", 9}, {NULL, 0}};
static const struct turn bf16_turns[] = {{"amx", 2}, {"arm_bf16", 3}, {NULL, 0}};
static const struct turn rawint4_turns[] = {
    {"amx", 5}, {"avx512_bf16", 24}, {"avx512", 24}, {"avx2", 4}, {"scalar", 8}, {NULL, 0},
};
static const struct turn fp8_turns[] = {
    {"amx", 3}, {"avx512", 6}, {"avx2", 20}, {"scalar", 8}, {NULL, 0},
};

static const struct model models[] = {
    {"llamafile", all_dtypes, false, keep, 0.5, "amx", llamafile_turns, true, read_llamafile, NULL},
    {"reference", all_dtypes, false, keep, 0.5, NULL, NULL, false, read_reference, NULL},
    {"bf16", plain_dtypes, false, round_bf16, 1, "amx avx512_bf16 arm_bf16", bf16_turns, false,
     model_read_bf16, NULL},
    {"rawint4", dtypes_of_4, true, keep, 1, "amx avx512_bf16 arm_bf16", rawint4_turns, true,
     model_read_bf16_sums, "avx2 avx512"},
    {"avx512_fp8", dtypes_of_8, true, keep, 1, "amx avx512_bf16 arm_bf16", fp8_turns, true, model_read_bf16,
     NULL},
};

const struct model *model_find(const char *plugin)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].plugin, plugin) == 0)
            return &models[i];
    return NULL;
}
