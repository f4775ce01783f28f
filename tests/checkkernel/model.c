/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - products in float64 of the numbers that a kernel multiplies, and how far float32 may be off.
 *
 * A sum of n float32 terms, added one after another, is off by at most (n + 2) * 2^-24 * sum|terms| (to
 * first order), whatever the order; a fused multiply-add rounds once. Quantised formats add one term
 * per group of columns (its integer part is exact), so n is taken from the format: K/32 groups, one
 * more term per group where there are minima, and a few for superblocks. Minima make terms larger than
 * the weights that result: |w| + 2 |minimum|. The minimum is step * code - w for any weight of its group.
 * A group with code 0 holds the minimum itself; else two codes differ (by a step of at most twice the
 * largest |w|) and the lowest is 1 or 2 steps of Q2_K's 3, so it is at most 5 times the largest |w|.
 */
#include "plugins/llamafile/llamafile.h"
#include "tests/checkkernel/check.h"

#include <kt/kt.h>
#include <math.h>
#include <string.h>

#define HALF_ULP 0x1p-24

struct value model_dot(const struct kt_format *format, const float *w, const double *x, uint64_t k)
{
    uint32_t elements, bytes;
    double sum = 0, terms = 0, x_sum = 0, largest = 0;

    kt_dtype_block(format->dtype, &elements, &bytes);
    for (uint64_t i = 0; i < k; i++) {
        double term = (double)w[i] * x[i];
        sum += term;
        terms += fabs(term);
        x_sum += fabs(x[i]);
        if (fabs((double)w[i]) > largest)
            largest = fabs((double)w[i]);
    }
    double n = elements == 1 ? (double)k / 2 + 3 : (double)k / 16 + 12;
    if (elements > 1)
        terms += 2 * 5 * largest * x_sum;
    return (struct value){ sum, n * HALF_ULP * terms + 0x1p-126 };
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* x * sigmoid(alpha x) has a slope within +-1.1 for every alpha. */
struct value model_activation(const struct kt_shape *shape, struct value gate, struct value up)
{
    double limit = (double)shape->limit, alpha = 1, g = gate.value, u = up.value;

    if (shape->activation != KT_ACTIVATION_SILU) {
        g = fmin(g, limit);
        u = fmax(fmin(u, limit), -limit);
    }
    if (shape->activation == KT_ACTIVATION_SWIGLUOAI) {
        alpha = (double)shape->alpha;
        u += 1;
    }
    double s = g * sigmoid(alpha * g);
    double bound = 1.1 * gate.bound * (fabs(u) + up.bound) + fabs(s) * up.bound;
    /* exp within 2 units, and its argument's rounding: 2^-24 |alpha g| of a value that silu scales */
    double steps = 16 + 2 * fabs(alpha * g);
    return (struct value){ s * u, bound + steps * HALF_ULP * fabs(s * u) + 0x1p-120 };
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
    int pair[2] = { 0, 0 };
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
    return load_float(block + ACT_SUM32 + 4 * g) == scale * (float)sum &&
           check_sums(block, 2 * g, scale) && check_sums(block, 2 * g + 1, scale);
}

static bool read_llamafile(const struct kt_layout *layout, enum kt_projection projection,
                           const uint8_t *packed, const float *x, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    uint32_t elements, bytes;

    kt_dtype_block(layout->shape.format[projection].dtype, &elements, &bytes);
    if (elements == 1) {
        packed += layout->words[WORD_FLOATS_0 + (projection == KT_DOWN)];
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
                           const uint8_t *packed, const float *x, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    for (uint64_t i = 0; i < k; i++)
        out[i] = (double)load_float(packed + 4 * i);
    return memcmp(packed, x, k * sizeof *x) == 0;
}

static const struct model models[] = {
    { "llamafile", true, true, true, read_llamafile },
    { "reference", true, true, true, read_reference },
};

const struct model *model_find(const char *plugin)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].plugin, plugin) == 0)
            return &models[i];
    return NULL;
}
