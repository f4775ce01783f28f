/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_int8.c - backends whose weights and activations are int8 with a scale for each row: products of whole
 * numbers, which plugins/common/int8/weights.h defines to the bit.
 */
#include "plugins/common/int8/rows.h"
#include "tests/checkkernel/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float model_quantize(const float *x, uint64_t k, int8_t *q)
{
    float max = 0.0f;
    bool finite = true;
    for (uint64_t i = 0; i < k; i++) {
        finite = finite && isfinite(x[i]);
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    }
    for (uint64_t i = 0; i < k; i++)
        q[i] = finite && max >= 0x1p-118f ? (int8_t)rintf(x[i] * (127.0f / max)) : 0;
    return !finite ? NAN : max >= 0x1p-118f ? max / 127.0f : 0.0f;
}

/* Rows of stage 0 stand one after the other; those of h may be in tiles, and are not looked at. */
bool model_read_int8(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out)
{
    const uint64_t k = projection_cols(&layout->shape, projection);
    int8_t *q = check_need(malloc(k));
    struct row_meta meta;
    float scale = model_quantize(x, k, q);
    int64_t sum = 0;
    (void)method;
    for (uint64_t i = 0; i < k; i++) {
        out[i] = q[i];
        sum += 128 * q[i];
    }
    out[k] = (double)scale;
    bool right = true;
    if (projection != KT_DOWN) {
        memcpy(&meta, packed + (k + 63) / 64 * 64, sizeof meta);
        right = memcmp(packed, q, k) == 0 && meta.sum128 == sum &&
                (isnan(scale) ? isnan(meta.scale) : meta.scale == scale);
    }
    free(q);
    return right;
}

struct value model_dot_int8(const struct check *check, enum kt_projection projection, uint64_t row,
                            const double *x)
{
    const uint64_t k = projection_cols(&check->layout.shape, projection);
    const int8_t *q = check->codes[projection] + row * k;
    const float *bias = expert_bias(&check->source.expert, projection);
    int64_t sum = 0;
    for (uint64_t i = 0; i < k; i++)
        sum += (int64_t)x[i] * q[i];
    if (sum != (int32_t)sum)
        abort();
    float product = ((float)x[k] * (float)check->groups[projection][row]) * (float)sum;
    product += bias ? bias[row] : 0.0f;
    if (projection == KT_DOWN && check_y_dtype(check) == KT_DTYPE_BF16)
        product = round_bf16(product);
    return (struct value){(double)product, 0};
}

void model_code_int8(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale)
{
    (void)row;
    *scale = model_quantize(source, projection_cols(&check->layout.shape, projection), codes);
}
