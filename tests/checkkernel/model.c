/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - products in float64 of the numbers that a kernel multiplies, and how far float32 may be off.
 *
 * A sum of n float32 terms, added one after another, is off by at most (n + 2) * 2^-24 * sum|terms| (to
 * first order), whatever the order; a fused multiply-add rounds once. Quantized formats add one term
 * per group of columns (its integer part is exact), so n is taken from the format: K/32 groups, one
 * more term per group where there are minima, and a few for superblocks. Minima make terms larger than
 * the weights that result: |w| + 2 |minimum|, see minima.c. Without minima a weight may still be a point of a
 * grid and a shift, none of them larger than twice the weight.
 * Activations that are rounded to bfloat16 are read as such: their rounding is checked by itself, to the
 * bit, and is not a part of the bound.
 */
#include "tests/checkkernel/check.h"
#include "tools/check/format.h"
#include "tools/check/lanes.h"

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

uint32_t model_level_crossover(const struct check *check)
{
    for (const struct crossover *crossover = check->model->crossovers; crossover && crossover->level;
         crossover++)
        if (strcmp(crossover->level, check->level->name) == 0 && !model_is_int8(check))
            return crossover->rows;
    return UINT32_MAX;
}

uint32_t model_crossover(const struct check *check)
{
    return check->layout.deterministic ? UINT32_MAX : model_level_crossover(check);
}

LANES_CLONES double model_add_sizes(const float *w, const double *x, uint64_t k)
{
    lanes sizes = {0}, value;
    uint64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        lanes_load_floats(w + i, &value);
        lanes_add_size(&sizes, &value);
        lanes_load(x + i, &value);
        lanes_add_size(&sizes, &value);
    }
    double all = lanes_sum(&sizes);
    for (; i < k; i++)
        all += fabs(x[i]) + fabs((double)w[i]);
    return all;
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
    kt_dtype_block(shape->format[projection].dtype, &elements, &bytes);
    struct terms of_w = exact_terms(w, x, k);
    double terms = of_w.sizes, offsets = minimum == w ? terms : exact_terms(minimum, x, k).sizes;
    terms += elements > 1 ? 2 * offsets : 0;
    double n = elements == 1 ? (double)k * model->terms + 3 : (double)k / 16 + 12;
    if (strcmp(check->level->name, "arm_bf16") == 0) /* bfdot rounds to odd: by a whole unit */
        n *= 2;
    double least = 0x1p-126;
    if (model_lists(model->own_order, check->level)) /* a factor, a product or a sum that is taken for 0 */
        least *= 3 * (double)k + 1 + model_add_sizes(w, x, k);
    return (struct value){of_w.sum, n * HALF_ULP * terms + least};
}

/* ---- the reference ---- */

static bool read_reference(const struct kt_layout *layout, enum kt_projection projection,
                           const uint8_t *packed, const float *x, enum method method, double *out)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    (void)method;
    for (uint64_t i = 0; i < k; i++)
        out[i] = (double)load_float(packed + 4 * i);
    return memcmp(packed, x, k * sizeof *x) == 0;
}

float model_keep(float value)
{
    return value;
}

const uint32_t model_ggml_dtypes[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16,
                                      BLOCK_FORMATS(BLOCK_DTYPE) KT_DTYPE_NONE};

const uint32_t model_float_dtypes[] = {KT_DTYPE_F32, KT_DTYPE_F16, KT_DTYPE_BF16, KT_DTYPE_NONE};

const struct model reference_model = {
    .plugin = "reference",
    .dtypes = model_ggml_dtypes,
    .weight = model_keep,
    .terms = 0.5,
    .factors = true,
    .read_row = read_reference,
};

const struct model *model_find(const char *plugin)
{
    for (const struct model *const *model = check_models; *model; model++)
        if (strcmp((*model)->plugin, plugin) == 0)
            return *model;
    return NULL;
}
