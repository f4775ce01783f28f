/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_int4.c - what plugins/common/int4_group/weights.h says of weights: packed bytes are read by its
 * words, and what packing chose is held against all that it could have chosen.
 */
#include "tests/checkkernel/int8_case.h"

#include <math.h>
#include <stdlib.h>

/* A weight's code, scale and zero, and the row's unit. */
struct parts {
    int code, scale, zero;
    float unit;
};

static struct parts read_parts(const uint8_t *packed, const struct kt_layout *layout,
                               enum kt_projection projection, uint64_t row, uint64_t column,
                               uint32_t group_size)
{
    const struct kt_shape *shape = &layout->shape;
    bool down = projection == KT_DOWN;
    uint64_t k = down ? shape->intermediate_size : shape->hidden_size, tiles = (k + 63) / 64;
    uint64_t columns = 2 * group_size, blocks = (tiles * 64 + columns - 1) / columns;
    uint64_t units = tiles * 1024 + blocks * 64, size = units + 32 * 4;
    bool plain = down || kt_activation_first(shape->activation) == KT_UP;
    uint64_t panel = plain ? row / 32 : row / 16, place = plain ? row % 32 : row % 16;
    struct parts parts;
    place += projection == KT_UP && !plain ? 16 : 0;
    packed += panel * size;
    const uint8_t *block = packed + column / columns * (64 + columns * 16);
    unsigned group = block[column % columns / group_size * 32 + place];
    unsigned byte = block[64 + column % columns / 8 * 128 + place / 16 * 64 + place % 16 * 4 + column % 4];
    parts.code = (int)(column % 8 < 4 ? byte % 16 : byte / 16);
    parts.scale = (int)group % 16 + 1;
    parts.zero = (int)group / 16;
    memcpy(&parts.unit, packed + units + place * 4, 4);
    return parts;
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
            if (scale * zero <= 128 && scale * (15 - zero) <= 127) {
                double error = code_group(x, n, unit, scale, zero);
                least = error < least ? error : least;
            }
    return least;
}

/* Adds the squared error that packing made of a row, and the least that the row's unit allows. */
static void add_errors(const struct matrix *matrix, uint64_t row, uint32_t group_size, double *have,
                       double *least)
{
    const float *x = matrix->value + row * matrix->cols;
    const int *q = matrix->q + row * matrix->cols;
    double unit = (double)matrix->scale[row];
    for (uint64_t c = 0; c < matrix->cols; c++) {
        double off = (double)x[c] - unit * q[c];
        *have += off * off;
    }
    for (uint64_t c = 0; c < matrix->cols; c += group_size) {
        uint64_t n = matrix->cols - c < group_size ? matrix->cols - c : group_size;
        *least += search_all(x + c, n, unit);
    }
}

static float find_unit(const float *x, uint64_t n)
{
    float max = 0.0f;
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    }
    return max < 0x1p-118f ? 0.0f : max / 127.0f;
}

void model_weights(struct expert *expert, const struct kt_layout *layout, void *const packed[2])
{
    /* An emulator takes a minute to try all that packing could have chosen. */
    const char *emulator = getenv("EMULATOR");
    const uint64_t step = emulator && *emulator ? 8 : 1;

    for (int p = 0; p < 3; p++) {
        struct matrix *matrix = &expert->matrix[p];
        double have = 0, least = 0;
        for (uint64_t r = 0; r < matrix->rows; r++) {
            float unit = find_unit(matrix->value + r * matrix->cols, matrix->cols);
            for (uint64_t c = 0; c < matrix->cols; c++) {
                struct parts parts =
                    read_parts(packed[p == KT_DOWN], layout, (enum kt_projection)p, r, c, expert->group_size);
                CHECK_THAT(parts.unit == unit || (isnan(unit) && isnan(parts.unit)), "unit %a, not %a",
                           (double)parts.unit, (double)unit);
                CHECK_THAT(parts.scale * parts.zero <= 128 && parts.scale * (15 - parts.zero) <= 127,
                           "scale %d, zero %d: a code leaves int8", parts.scale, parts.zero);
                matrix->q[r * matrix->cols + c] = parts.scale * (parts.code - parts.zero);
            }
            matrix->scale[r] = unit;
            if (unit > 0.0f && r % step == 0)
                add_errors(matrix, r, expert->group_size, &have, &least);
        }
        /* what a search of three scales with a zero each leaves to one of all */
        CHECK_THAT(have <= 1.05 * least, "a squared error of %g, the least is %g", have, least);
    }
}

/* ---- the figures that int4_group/weights.h tells ---- */

static float random_gauss(void)
{
    double u = ((double)rand() + 1) / ((double)RAND_MAX + 2), v = (double)rand() / RAND_MAX;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

START_TEST(error_of_gaussian_weights)
{
    static const double most[] = {0.0805, 0.0900, 0.0970}, bits[] = {4.5, 4.25, 4.25};
    uint32_t group_size = UINT32_C(32) << _i;
    struct check_shape shape = {.shape = {.hidden_size = 2048, .intermediate_size = 48},
                                .dtype = {KT_DTYPE_F32, KT_DTYPE_F32, KT_DTYPE_F32},
                                .group_size = group_size};
    struct expert expert;
    struct run run;
    double error = 0, size = 0;
    srand(1);
    make_expert(&expert, &shape);
    struct matrix *gate = &expert.matrix[KT_GATE];
    for (uint64_t i = 0; i < gate->rows * gate->cols; i++)
        ((float *)gate->source)[i] = gate->value[i] = random_gauss();
    start_run(&run, &check_levels[0], &expert, 1 << 20, KT_DTYPE_F32);
    for (uint64_t i = 0; i < gate->rows * gate->cols; i++) {
        double x = (double)gate->value[i];
        double off = x - (double)gate->scale[i / gate->cols] * gate->q[i];
        error += off * off;
        size += x * x;
    }
    ck_assert_double_le(sqrt(error / size), most[_i]);
    uint64_t weights = 2 * gate->rows * gate->cols;
    ck_assert_double_le(8 * (double)run.layout.nominal_size[0] / (double)weights, bits[_i]);
    ck_assert_double_le((double)run.layout.weight_size[0], 1.05 * (double)run.layout.nominal_size[0]);
    end_run(&run);
    free_expert(&expert);
}
END_TEST

void model_open(void *instance, const struct expert *expert)
{
    ((struct int4_instance *)instance)->group_size = expert->group_size;
}

void model_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, error_of_gaussian_weights, 0, 3);
}
