/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/rows/rows_model.h"

#include "core/weights/decode/encode.h"
#include "plugins/common/simd/numbers.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[N_LEVELS] = {"amx",      "avx512_bf16", "avx512", "avx2",
                                             "arm_bf16", "neon",        "scalar"};
static struct kt_context *opened;

const char *level_name(int level)
{
    return levels[level];
}

/* Can this CPU have the level at all? Making a context only to hear that it cannot takes longer than most
 * tests. */
static bool is_possible(const char *level)
{
    if (sandbox_skips(level))
        return false;
#if defined __x86_64__
    if (strcmp(level, "avx2") == 0)
        return __builtin_cpu_supports("avx2");
    return strcmp(level, "scalar") == 0 || (__builtin_cpu_supports("avx512f") && !strpbrk(level, "nr"));
#else
    return level[0] != 'a' || level[1] == 'r'; /* those of x86 */
#endif
}

const struct kt_rows *level_open(int level)
{
    return level_open_with(level, NULL);
}

const struct kt_rows *level_open_with(int level, const char *setting)
{
    const struct random_source source = {.backend = "attention"};
    const struct kt_rows *rows = NULL;
    struct kt_rows_info info;
    if (!is_possible(levels[level]))
        return NULL;
    opened = random_view_context(&source, levels[level], 2, NULL, setting);
    if (!opened)
        return NULL;
    if (kt_rows_find(opened, NULL, &rows, NULL) != KT_OK) {
        ck_assert_str_ne(levels[level], "scalar");
        level_close();
        return NULL;
    }
    kt_rows_info(rows, &info);
    ck_assert_str_eq(info.backend, "attention");
    ck_assert_str_eq(info.level, levels[level]);
    return rows;
}

void level_close(void)
{
    kt_context_destroy(opened);
    opened = NULL;
}

struct kt_context *level_context(void)
{
    return opened;
}

static uint32_t number_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : 2;
}

static uint8_t *number_at(const struct plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    return plane->data + (int64_t)row * plane->stride + (int64_t)part * plane->part_stride +
           (int64_t)i * number_size(plane->dtype);
}

struct plane plane_make(uint32_t dtype, uint32_t rows, uint32_t parts, uint32_t size, uint32_t gap,
                        double scale, uint64_t *seed)
{
    struct plane plane = {.dtype = dtype, .rows = rows, .parts = parts, .size = size};
    plane.part_stride = (int64_t)(size + gap) * number_size(dtype);
    plane.stride = plane.part_stride * parts + 2 * (int64_t)gap * number_size(dtype);
    plane.bytes = (size_t)plane.stride * (rows ? rows : 1);
    plane.data = malloc(plane.bytes);
    plane.before = malloc(plane.bytes);
    memset(plane.data, 0xff, plane.bytes); /* NaN in all dtypes */
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t p = 0; p < parts; p++)
            for (uint32_t i = 0; i < size; i++)
                plane_set(&plane, r, p, i, scale * fixture_gaussian(seed));
    plane_keep(&plane);
    return plane;
}

void plane_free(struct plane *plane)
{
    free(plane->data);
    free(plane->before);
}

double plane_get(const struct plane *plane, uint32_t row, uint32_t part, uint32_t i)
{
    const uint8_t *at = number_at(plane, row, part, i);
    if (plane->dtype == KT_DTYPE_F32)
        return (double)load_f32(at);
    uint16_t bits = load_u16(at);
    return (double)(plane->dtype == KT_DTYPE_BF16 ? bf16_to_float(bits) : half_to_float(bits));
}

/* The nearest number. */
void plane_set(struct plane *plane, uint32_t row, uint32_t part, uint32_t i, double value)
{
    uint8_t *at = number_at(plane, row, part, i);
    float single = (float)value;
    if (plane->dtype == KT_DTYPE_F32)
        memcpy(at, &single, sizeof single);
    else if (plane->dtype == KT_DTYPE_BF16)
        store_u16(at, kt_to_bf16(single));
    else
        store_u16(at, kt_to_f16(single));
}

void plane_keep(struct plane *plane)
{
    memcpy(plane->before, plane->data, plane->bytes);
}

bool plane_gaps_kept(const struct plane *plane)
{
    uint8_t *inside = calloc(1, plane->bytes);
    bool kept = true;
    for (uint32_t r = 0; r < plane->rows; r++)
        for (uint32_t p = 0; p < plane->parts; p++)
            memset(inside + (number_at(plane, r, p, 0) - plane->data), 1,
                   (size_t)plane->size * number_size(plane->dtype));
    for (size_t i = 0; i < plane->bytes; i++)
        kept &= inside[i] || plane->data[i] == plane->before[i];
    free(inside);
    return kept;
}

struct kt_rows_input plane_input(const struct plane *plane)
{
    return (struct kt_rows_input){plane->data, plane->stride, plane->part_stride, plane->dtype, 0};
}

struct kt_rows_output plane_output(struct plane *plane)
{
    return (struct kt_rows_output){plane->data, plane->stride, plane->part_stride, plane->dtype, 0};
}

double rounding_of(uint32_t dtype, double value)
{
    if (dtype == KT_DTYPE_F32)
        return fabs(value) * UNIT + 0x1p-150;
    return dtype == KT_DTYPE_BF16 ? fabs(value) * 0x1p-8 + 0x1p-134 : fabs(value) * 0x1p-11 + 0x1p-25;
}

float *floats_make(size_t n, double scale, uint64_t *seed)
{
    float *numbers = malloc(n * sizeof *numbers);
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)(scale * fixture_gaussian(seed));
    return numbers;
}

double model_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
