/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_int4.c - what plugins/common/int4_group/weights.h says of weights: packed bytes are read by its
 * words, and what packing chose is held against all that it could have chosen.
 */
#include "tests/checkkernel/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A weight's code, scale and zero. */
struct parts {
    int code, scale, zero;
};

static uint32_t find_group_size(const struct check *check)
{
    unsigned size = 0;
    if (sscanf(check->layout.form, "amx_int4-g%u-", &size) != 1 || size == 0)
        abort();
    return size;
}

/* Where the panel of a row begins, and the row's place in it. */
static const uint8_t *find_panel(const struct check *check, enum kt_projection projection, uint64_t row,
                                 uint64_t *place, uint64_t *units)
{
    const struct kt_shape *shape = &check->layout.shape;
    const uint64_t tiles = (projection_cols(shape, projection) + 63) / 64;
    const uint64_t columns = 2 * find_group_size(check), blocks = (tiles * 64 + columns - 1) / columns;
    const bool plain = projection == KT_DOWN || kt_activation_first(shape->activation) == KT_UP;
    const uint64_t panel = plain ? row / 32 : row / 16;
    *place = plain ? row % 32 : row % 16 + (projection == KT_UP ? 16 : 0);
    *units = tiles * 1024 + blocks * 64;
    return check->packed[projection == KT_DOWN].data + panel * (*units + 32 * 4);
}

static struct parts read_parts(const uint8_t *panel, uint64_t place, uint64_t column, uint32_t group_size)
{
    const uint64_t columns = 2 * group_size;
    const uint8_t *block = panel + column / columns * (64 + columns * 16);
    unsigned group = block[column % columns / group_size * 32 + place];
    unsigned byte = block[64 + column % columns / 8 * 128 + place / 16 * 64 + place % 16 * 4 + column % 4];
    return (struct parts){(int)(column % 8 < 4 ? byte % 16 : byte / 16), (int)group % 16 + 1,
                          (int)group / 16};
}

static bool leaves_int8(int scale, int zero)
{
    return scale * zero > 128 || scale * (15 - zero) > 127;
}

/* The squared error of n weights, each with the code that is best for it. */
static double code_group(const float *x, uint64_t n, double unit, int scale, int zero)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double step = unit * scale, code = rint((double)x[i] / step) + zero;
        code = code < 0 ? 0 : code > 15 ? 15 : code;
        double off = (double)x[i] - step * (code - zero);
        sum += off * off;
    }
    return sum;
}

static double search_all(const float *x, uint64_t n, double unit)
{
    double least = INFINITY;
    for (int scale = 1; scale <= 16; scale++)
        for (int zero = 0; zero <= 15; zero++)
            if (!leaves_int8(scale, zero))
                least = fmin(least, code_group(x, n, unit, scale, zero));
    return least;
}

/* Squares of a projection: the errors of what packing made of its rows, the least that their units allow, and
 * the weights. */
struct errors {
    double have, least, size;
};

/* Of some rows, and at one level, as all pack the same bytes. */
static void add_errors(const float *x, const int8_t *q, uint64_t k, double unit, uint32_t group_size,
                       bool search, struct errors *errors)
{
    for (uint64_t c = 0; c < k; c++) {
        double off = (double)x[c] - unit * q[c];
        errors->have += off * off;
        errors->size += (double)x[c] * (double)x[c];
    }
    for (uint64_t c = 0; c < k && search; c += group_size)
        errors->least += search_all(x + c, k - c < group_size ? k - c : group_size, unit);
}

/* The figures that int4_group/weights.h tells: of weights from a normal distribution, in a matrix that is not
 * too small. */
static void check_figures(struct check *check, enum kt_projection projection, const struct errors *errors)
{
    static const struct {
        uint32_t group_size;
        double error, bits;
    } most[] = {{32, 0.0805, 4.5}, {64, 0.0900, 4.25}, {128, 0.0970, 4.25}};
    const struct kt_shape *shape = &check->layout.shape;
    const uint32_t dtype = shape->format[projection].dtype;
    const enum kt_stage stage = projection == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    const bool two = stage == KT_STAGE_GATE_UP && kt_activation_first(shape->activation) == KT_GATE;
    const double weights = (double)(shape->hidden_size * shape->intermediate_size * (two ? 2 : 1));
    const double nominal = (double)check->layout.nominal_size[stage];
    if (projection_cols(shape, projection) < 1024 ||
        projection_rows(shape, projection) * projection_cols(shape, projection) < 98304 ||
        (dtype != KT_DTYPE_F32 && dtype != KT_DTYPE_BF16))
        return;
    for (unsigned i = 0; i < sizeof most / sizeof *most; i++)
        if (most[i].group_size == find_group_size(check) &&
            (sqrt(errors->have / errors->size) > most[i].error || 8 * nominal / weights > most[i].bits))
            check_fail(check, "groups of %u: an error of %.4f in %.3f bits a weight", most[i].group_size,
                       sqrt(errors->have / errors->size), 8 * nominal / weights);
}

void model_code_int4(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                     int8_t *codes, float *scale)
{
    static struct errors errors, searched;
    const uint64_t k = projection_cols(&check->layout.shape, projection);
    const uint32_t group_size = find_group_size(check);
    uint64_t place, units;
    const uint8_t *panel = find_panel(check, projection, row, &place, &units);
    const float wanted = model_quantize(source, k, codes);
    memcpy(scale, panel + units + place * 4, sizeof *scale);
    if (isnan(wanted) ? !isnan(*scale) : *scale != wanted)
        check_fail(check, "row %llu has unit %a, not %a", (unsigned long long)row, (double)*scale,
                   (double)wanted);
    for (uint64_t c = 0; c < k; c++) {
        struct parts parts = read_parts(panel, place, c, group_size);
        if (leaves_int8(parts.scale, parts.zero))
            check_fail(check, "scale %d, zero %d: a code leaves int8", parts.scale, parts.zero);
        codes[c] = (int8_t)(parts.scale * (parts.code - parts.zero));
    }
    if (row == 0)
        errors = searched = (struct errors){0, 0, 0};
    if (*scale > 0.0f) {
        add_errors(source, codes, k, (double)*scale, group_size, false, &errors);
        if (row % 4 == 0 && strcmp(check->level->name, "scalar") == 0)
            add_errors(source, codes, k, (double)*scale, group_size, true, &searched);
    }
    const uint64_t rows = projection_rows(&check->layout.shape, projection);
    if (row + 1 < rows)
        return;
    /* what a search of three scales with a zero each leaves to one of all, of more than a few groups */
    if (k >= 64 && rows * k >= 4096 && searched.have > 1.05 * searched.least)
        check_fail(check, "a squared error of %g, the least is %g", searched.have, searched.least);
    check_figures(check, projection, &errors);
}
