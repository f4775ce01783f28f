/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_scaled.c - what backends with scales in groups and bfloat16 activations multiply, and how far
 * float32 may be off. u is 2^-24, all of it to first order. Such a backend has two methods:
 *
 *   METHOD_CODES, few rows. A number of few bits is exact in bfloat16: int4 enters as d = 128 + code, others
 *   as they are. The sum of d x over a group of n columns has n exact products and at most n + 1
 *   roundings on the way of each, in whatever order and in how many chains: (n + 1) u sum|d x|. For int4,
 *   o = 128 + zero times the sum of x is taken off: that sum has at most n roundings on the way of each
 *   x, so o (n + 1) u sum|x|, and one rounding of the result. This times the scale s is added to the sum
 *   of the groups, one rounding per group, each at most u sum|w x|. weight_row rounded w = s (d - o)
 *   once more, which the kernel did not. Together
 *       u (sum over groups of |s| (n + 3) (sum|d x| + o sum|x|)  +  (groups + 2) sum|w x|)
 *   A level that `fixed_point` names multiplies x rounded to whole numbers of a unit per 32 columns; d and o
 * are then small whole numbers: o = zero, or 6 for f4_e2m1. Sums of what a group has of such 32 columns are
 * exact in float32, so n counts these. (Where a group ends among 32 columns, x is added up in eights, exactly
 * too.)
 *
 *   Where rows are int8, x is q times a scale per 32 columns, and the same holds: sums of q are exact.
 *
 *   METHOD_ROUNDED, many rows. Each weight becomes bfloat16, to nearest, ties to even: 2^-9 of it at most.
 *   That is checked to the bit: w here is rounded likewise, and K terms are added: (K + 3) u sum|w x|.
 *   Levels in `expanded` may round halves of even columns away from 0 and those of odd ones towards it.
 *   Where the format has minima, they compute w = (base + code) s - (base s + minimum) by one fused product.
 *   base s is exact: a power of two times a scale of at most 17 bits. Its sum with the minimum is rounded to
 *   float32, by u (base s + |minimum|) at most, and so are the result and the w of weight_row, by u |w| each.
 *   That is relative to s, not to w: where all codes are 0, weights may be far smaller than s. So w may be
 *   either neighbor of a half that is as near as u (base s + |minimum| + 2 |w|).
 *
 * Fewer rows than the level's crossover go by the first. Of more rows the format chooses, so either will do,
 * but one for all outputs of a row.
 */
#include "core/weights/decode/dequantize.h"
#include "tests/checkkernel/check.h"
#include "tools/check/lanes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_ULP 0x1p-24

/* The value of a group, as float32. */
static double read_group(const struct kt_scales *scales, uint64_t row, uint64_t group)
{
    struct kt_view one = KT_VIEW_INIT;
    float value;
    if (scales->dtype == KT_DTYPE_U8)
        return *((const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride +
                 (int64_t)group * scales->col_stride);
    one.data = (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride +
               (int64_t)group * scales->col_stride;
    one.dtype = scales->dtype;
    one.size = 8;
    one.rows = one.cols = 1;
    one.row_stride = one.block_stride = 8;
    if (kt_view_dequantize(&one, 0, 0, 1, &value, NULL))
        abort();
    return (double)value;
}

/* Does the level, or the mode, take subnormal factors, products or sums for 0? */
static bool flushes(const struct check *check)
{
    return check_drops_subnormal || model_lists(check->model->own_order, check->level);
}

/* What of the sums is not relative to them: results below the least normal float32, and for levels that
 * take subnormal numbers for 0, each of them: `sizes` is the sum of |x| and of |w|. */
static double find_least(const struct check *check, double sizes, uint64_t k)
{
    return flushes(check) ? 0x1p-126 * (sizes + 3 * (double)k + 1) : 0x1p-126;
}

#define WHOLE 32 /* columns that share a unit */

/* n numbers, at most WHOLE, as the whole numbers q of the unit that is returned: NaN if one is not a number.
 */
static double make_whole(const double *x, uint64_t n, int *q)
{
    double max = 0;
    int exponent = -126;
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            max = NAN;
        else if (fabs(x[i]) > max)
            max = fabs(x[i]);
        q[i] = 0;
    }
    if (isnan(max))
        return NAN;
    if (max > 0 && ilogb(max) - 13 > exponent)
        exponent = ilogb(max) - 13;
    for (uint64_t i = 0; i < n; i++)
        q[i] = (int)nearbyint(ldexp(x[i], -exponent));
    return ldexp(1, exponent);
}

/* Does the level multiply few rows as whole numbers? */
static bool takes_whole(const struct check *check)
{
    return !model_is_int8(check) && check->model->fixed_point &&
           model_lists(check->model->fixed_point, check->level);
}

void model_fix_row(const struct check *check, uint64_t k, double *x)
{
    int q[WHOLE];
    for (uint64_t c = 0, n; c < k && takes_whole(check); c += n) {
        n = k - c < WHOLE ? k - c : WHOLE;
        double unit = make_whole(x + c, n, q);
        for (uint64_t i = 0; i < n; i++)
            x[c + i] = unit * q[i];
    }
}

/* Terms of a group: their sum and the sums of their sizes, those of the codes d, and of x. */
struct group {
    double sum, terms, products, codes, x_sum;
};

/* Where the scale is 0 nothing is left, whatever d is. */
LANES_CLONES static struct group add_group(const float *w, const double *x, uint64_t n, double scale,
                                           double offset)
{
    const bool some = scale < 0 || scale > 0;
    const double inverse = some ? 1 / scale : 0, shift = some ? offset : 0;
    lanes sum = {0}, terms = {0}, products = {0}, codes = {0}, x_sum = {0}, weight, at, d;
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes_load_floats(w + i, &weight);
        lanes_load(x + i, &at);
        lanes_add_size(&x_sum, &at);
        d = weight * inverse + shift;
        lanes_add_size(&codes, &d);
        d *= at;
        lanes_add_size(&products, &d);
        weight *= at;
        lanes_add_size(&terms, &weight);
        sum += weight;
    }
    struct group group = {lanes_sum(&sum), lanes_sum(&terms), lanes_sum(&products), lanes_sum(&codes),
                          lanes_sum(&x_sum)};
    for (; i < n; i++) {
        double term = (double)w[i] * x[i], code = (double)w[i] * inverse + shift;
        group.sum += term;
        group.terms += fabs(term);
        group.products += fabs(code * x[i]);
        group.codes += fabs(code);
        group.x_sum += fabs(x[i]);
    }
    return group;
}

/* Columns of a group, and how many groups a row has. */
static uint64_t group_size(const struct kt_view *view)
{
    return view->scales.group_cols < view->cols ? view->scales.group_cols : view->cols;
}

static uint64_t count_groups(const struct kt_view *view)
{
    return (view->cols - 1) / group_size(view) + 1;
}

void model_read_groups(struct check *check, enum kt_projection projection)
{
    const struct kt_view *view = check_view(check, projection);
    uint64_t groups = count_groups(view);
    if (check->groups[projection])
        return;
    double *to = check->groups[projection] = check_need(malloc(view->rows * groups * 2 * sizeof *to));
    for (uint64_t row = 0; row < view->rows; row++, to += 2 * groups)
        for (uint64_t g = 0; g < groups; g++) {
            to[g] = read_group(&view->scales, row, g);
            to[groups + g] = view->zeros.data ? read_group(&view->zeros, row, g) : 8;
        }
}

/* What is taken off each code of a group of this zero; `whole`: codes are multiplied as whole numbers. */
static double find_offset(const struct kt_view *view, double zero, bool whole)
{
    if (view->dtype != KT_DTYPE_INT4)
        return whole && view->dtype == KT_DTYPE_F4_E2M1 ? 6 : 0;
    return (whole ? 0 : 128) + zero;
}

/* `scales`: of the row's groups, with their zeros behind them. */
static struct value dot_codes(const struct check *check, const struct kt_view *view, const double *scales,
                              const float *w, const double *x)
{
    bool int8 = model_is_int8(check), whole = int8 || takes_whole(check);
    uint64_t k = view->cols, n = group_size(view), groups = count_groups(view);
    double sum = 0, terms = 0, errors = 0, x_all = 0, factors = 0;
    for (uint64_t g = 0; g < groups; g++) {
        double scale = scales[g], offset = find_offset(view, scales[groups + g], whole);
        uint64_t begin = g * n, end = k - begin < n ? k : begin + n;
        struct group group = add_group(w + begin, x + begin, end - begin, scale, offset);
        double steps = (double)(whole ? (end - 1) / WHOLE - begin / WHOLE + 1 : n);
        errors += fabs(scale) * (steps + 3) * (group.products + offset * group.x_sum);
        sum += group.sum;
        terms += group.terms;
        x_all += group.x_sum;
        factors += fabs(scale) * group.codes;
        if (check_drops_subnormal) /* a scale may be read as 0 */
            factors += group.products + offset * group.x_sum;
    }
    return (struct value){sum, HALF_ULP * (errors + ((double)groups + 2) * terms) +
                                   find_least(check, x_all + factors, k)};
}

/* As simd/avx512_expand.h rounds: halves of even columns away from 0, of odd columns towards it. */
static float round_by_column(float value, uint64_t column)
{
    return bits_float((float_bits(value) + (column % 2 ? 0x7fff : 0x8000)) & 0xffff0000);
}

/* Where weights may become the one or the other: the middle, and how far both are from it. */
static void spread_rounded(struct check *check, enum kt_projection projection, uint64_t n)
{
    const struct kt_shape *shape = &check->layout.shape;
    const uint64_t k = projection_cols(shape, projection);
    const float *w = check->weights[projection], *minima = check->minima[projection];
    float *steps = check->model->expanded_base ? minima_find_steps(check, projection) : NULL;
    const double base = steps ? check->model->expanded_base(shape->format[projection].dtype) : 0;
    check->spread[projection] = check_need(malloc(n * sizeof(float)));
    for (uint64_t i = 0; i < n; i++) {
        double weight = (double)w[i], off = 0;
        if (steps)
            off = HALF_ULP * (base * (double)steps[i] + fabs((double)minima[i]) + 2 * fabs(weight));
        float below = (float)(weight - off), above = (float)(weight + off);
        float even[2] = {round_bf16(below), round_bf16(above)};
        float other[2] = {round_by_column(below, i % k), round_by_column(above, i % k)};
        float low = fminf(even[0], other[0]), high = fmaxf(even[1], other[1]);
        check->rounded[projection][i] = low + (high - low) / 2;
        check->spread[projection][i] = (high - low) / 2;
    }
    free(steps);
}

void model_round(struct check *check, enum kt_projection projection)
{
    const struct kt_shape *shape = &check->layout.shape;
    uint64_t n = projection_rows(shape, projection) * projection_cols(shape, projection);
    if (check->rounded[projection])
        return;
    check->rounded[projection] = check_need(malloc(n * sizeof(float)));
    for (uint64_t i = 0; i < n; i++)
        check->rounded[projection][i] = round_bf16(check->weights[projection][i]);
    if (check->model->expanded && model_lists(check->model->expanded, check->level))
        spread_rounded(check, projection, n);
}

struct value model_dot_rounded(const struct check *check, enum kt_projection projection, uint64_t row,
                               const double *x)
{
    uint64_t k = projection_cols(&check->layout.shape, projection);
    const float *w = check->rounded[projection] + row * k;
    struct terms terms = exact_terms(w, x, k);
    const float *spread = check->spread[projection] ? check->spread[projection] + row * k : NULL;
    double either = spread ? exact_terms(spread, x, k).sizes : 0;
    double sizes = flushes(check) ? model_add_sizes(w, x, k) : 0;
    return (struct value){terms.sum, ((double)k + 3) * HALF_ULP * (terms.sizes + either) + either +
                                         find_least(check, sizes, k)};
}

struct value model_dot_scaled(const struct check *check, enum kt_projection projection, uint64_t row,
                              const double *x)
{
    const struct kt_view *view = check_view(check, projection);
    const double *scales = check->groups[projection] + row * 2 * count_groups(view);
    return dot_codes(check, view, scales, check->weights[projection] + row * view->cols, x);
}

/* ---- rows of activations ---- */

/* Bytes of a row of so many columns (a multiple of 64), and of what stands behind them for each 32. */
static uint64_t row_bytes(uint64_t columns, uint64_t element, uint64_t beside)
{
    return ((columns * element + columns / 32 * beside + 63) / 64 * 64) | 64;
}

/* Sums of 32 columns that stand beside them in a row: 1, or 4 of 8 columns where a group ends among the 32.
 */
static unsigned count_sums(const struct kt_layout *layout, enum kt_projection projection)
{
    uint64_t k = projection_cols(&layout->shape, projection);
    uint64_t group = layout->shape.format[projection].group_cols;
    return group < k && group % 32 != 0 ? 4 : 1;
}

/* Numbers 32 * t .. of a row, and what a level that multiplies whole numbers has made of them: n sums of
 * these, behind those of all tiles the units, then high and low bytes in the order of the codes. */
static bool check_whole(const double *x, const uint8_t *sums, uint64_t tiles, uint64_t t, unsigned n)
{
    static const int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const uint8_t *units = sums + 4 * n * tiles;
    const int8_t *high = (const int8_t *)units + 4 * tiles + 64 * t, *low = high + WHOLE;
    int q[WHOLE], sum[4] = {0};
    double unit = make_whole(x, WHOLE, q), stored = (double)load_float(units + 4 * t);
    bool right = isnan(unit) ? isnan(stored) : stored == unit;
    for (unsigned i = 0; i < WHOLE; i++) {
        int column = (int)i / 8 * 8 + order[i % 8];
        right = right && q[column] == 256 * high[i] + low[i];
        sum[i * n / WHOLE] += q[column];
    }
    for (unsigned i = 0; i < n; i++) {
        stored = (double)load_float(sums + 4 * (n * t + i));
        right = right && (isnan(unit) ? isnan(stored) : stored == unit * sum[i]);
    }
    return right;
}

/* Each x rounded, and each sum of 32, or of 8, to the bit: one after the other, as every level adds them,
 * unless it multiplies whole numbers, and where rows are tiled and their number is known, for few alone. */
static bool read_row(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out, bool has_sums)
{
    uint64_t k = projection_cols(&layout->shape, projection), padded = (k + 63) / 64 * 64;
    bool down = projection == KT_DOWN, tiled = down && layout->row_unit > 1, right = true;
    unsigned n = has_sums ? count_sums(layout, projection) : 0, part = n ? 32 / n : 32;
    uint64_t size = layout->act_row_size[down], beside = 4 * n + 68;
    bool pairs = has_sums && layout->row_unit > 1 && size == row_bytes(padded, 2, beside);
    bool whole = pairs || (has_sums && size == row_bytes(padded, 4, beside));
    bool read = has_sums && !(whole && tiled && method == METHOD_ROUNDED);
    bool cost = pairs || size == row_bytes(padded, 2, 4 * n);
    const uint8_t *sums = packed + (tiled ? padded / 32 * 1024 : padded * (cost ? 2 : 4));
    double columns[32];
    float sum = 0;
    for (uint64_t i = 0; i < padded; i++) {
        uint64_t at = tiled ? i / 32 * 1024 + i % 32 * 2 : i * (cost ? 2 : 4);
        float wanted = i < k ? round_bf16(x[i]) : 0.0f;
        float value = read_number(packed + at, cost ? KT_DTYPE_BF16 : KT_DTYPE_F32);
        right = right && memcmp(&value, &wanted, sizeof value) == 0;
        columns[i % 32] = (double)value;
        sum = i % part == 0 ? value : sum + value;
        if (read && whole && i % 32 == 31) {
            right = right && check_whole(columns, sums, padded / 32, i / 32, n);
        } else if (read && !whole && i % part == part - 1) {
            float stored = load_float(sums + i / part * sizeof stored);
            right = right && (stored == sum || (isnan(stored) && isnan(sum)));
        }
        if (i < k)
            out[i] = (double)value;
    }
    return right;
}

/* A row of int8: columns in the order of their codes, then n sums of each 32, then their scales. */
static bool read_int8(uint64_t k, const uint8_t *packed, const float *x, unsigned n, double *out)
{
    static const int place[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint64_t padded = (k + 63) / 64 * 64;
    const uint8_t *sums = packed + padded, *scales = sums + padded / 32 * 4 * n;
    bool right = true;
    for (uint64_t c = 0; c < padded; c += 32) {
        float scale = load_float(scales + c / 32 * 4), max = 0;
        bool finite = true;
        int sum[4] = {0};
        for (uint64_t i = c; i < c + 32 && i < k; i++) {
            finite = finite && isfinite(x[i]);
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        }
        for (uint64_t i = c; i < c + 32; i++) {
            int q = (int8_t)packed[i / 8 * 8 + (unsigned)place[i % 8]];
            double value = (double)scale * q, wanted = i < k ? (double)x[i] : 0;
            right = right && (finite ? fabs(value - wanted) <= (double)scale * 0.50002 + 0x1p-118 : q == 0);
            sum[(i - c) * n / 32] += q;
            if (i < k)
                out[i] = value;
        }
        right = right && (finite ? scale == (max < 0x1p-118f ? 0.0f : max / 127.0f) : isnan(scale));
        for (unsigned i = 0; i < n; i++) {
            float stored = load_float(sums + (c / 32 * n + i) * 4);
            right = right && (finite ? stored == scale * (float)sum[i] : isnan(stored));
        }
    }
    return right;
}

bool model_read_bf16(const struct kt_layout *layout, enum kt_projection projection, const uint8_t *packed,
                     const float *x, enum method method, double *out)
{
    return read_row(layout, projection, packed, x, method, out, false);
}

bool model_read_bf16_sums(const struct kt_layout *layout, enum kt_projection projection,
                          const uint8_t *packed, const float *x, enum method method, double *out)
{
    if (layout->instruction)
        return read_int8(projection_cols(&layout->shape, projection), packed, x,
                         count_sums(layout, projection), out);
    return read_row(layout, projection, packed, x, method, out, true);
}

bool model_read_pairs(uint64_t k, bool tiled, const uint8_t *packed, const float *x, double *out)
{
    bool right = true;
    for (uint64_t i = 0; i < (k + 63) / 64 * 64; i++) {
        float wanted = i < k ? round_bf16(x[i]) : 0.0f;
        float value = read_number(packed + (tiled ? i / 32 * 1024 + i % 32 * 2 : i * 2), KT_DTYPE_BF16);
        right = right && memcmp(&value, &wanted, sizeof value) == 0;
        if (i < k)
            out[i] = (double)value;
    }
    return right;
}
