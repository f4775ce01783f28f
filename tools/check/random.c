/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - random weights as valid blocks of each format, in views with gaps. */
#include "tools/check/check.h"
#include "tools/check/format.h"

#include <kt/kt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

double random_gaussian(uint64_t *state)
{
    double u = (double)((random_next(state) >> 11) + 1) * 0x1p-53;
    double v = (double)(random_next(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* A float16 of either sign between 2^-14 and 2^-6; one in 32 is zero, one subnormal. */
static uint16_t random_half(uint64_t *state)
{
    uint32_t bits = (uint32_t)random_next(state);
    uint32_t special = bits >> 16 & 31;
    if (special == 0)
        return (uint16_t)(bits & 0x8000);
    if (special == 1)
        return (uint16_t)(bits & 0x83ff);
    return (uint16_t)((bits & 0x83ff) | (1 + (bits >> 10 & 7)) << 10);
}

void random_floats(uint64_t *state, uint32_t dtype, uint8_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = (float)(random_gaussian(state) * 0.05);
        uint16_t half = random_half(state);
        if (dtype == KT_DTYPE_F16)
            memcpy(out + 2 * i, &half, sizeof half);
        else
            write_number(out + number_size(dtype) * i, dtype, value);
    }
}

/* Any byte except the two NaNs. */
static void random_e4m3(uint64_t *state, uint8_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        out[i] = (uint8_t)random_next(state);
        if ((out[i] & 0x7f) == 0x7f)
            out[i] ^= 1;
    }
}

void random_blocks(uint64_t *state, uint32_t dtype, uint8_t *blocks, uint64_t n_blocks)
{
    uint32_t elements, bytes;
    kt_dtype_block(dtype, &elements, &bytes);
    if (dtype == KT_DTYPE_F8_E4M3) {
        random_e4m3(state, blocks, n_blocks);
        return;
    }
    if (dtype == KT_DTYPE_I8) {
        for (uint64_t i = 0; i < n_blocks; i++)
            blocks[i] = (uint8_t)random_next(state);
        return;
    }
    if (elements == 1) {
        random_floats(state, dtype, blocks, n_blocks);
        return;
    }
    const struct block_format *format = block_format(dtype);
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint8_t *block = blocks + b * bytes;
        /* one block in four has only lowest, highest or middle quants, to make sums saturate */
        static const uint8_t extreme[4] = {0x00, 0xff, 0x80, 0x7f};
        bool fill = random_below(state, 4) == 0;
        uint8_t filler = extreme[random_below(state, 4)];
        for (uint32_t i = 0; i < bytes; i++)
            block[i] = fill ? filler : (uint8_t)random_next(state);
        if (dtype == KT_DTYPE_MXFP4) /* 2^-19 to 2^-4, sometimes the smallest possible */
            block[0] = (uint8_t)(block[0] & 15 ? 108 + (block[0] >> 4) : block[0] >> 4 & 1);
        if (format && (format->d >= 0 || dtype == KT_DTYPE_IQ1_M))
            block_set_d(format, block, random_half(state));
        if (format && format->dmin >= 0) {
            uint16_t half = random_half(state);
            memcpy(block + format->dmin, &half, sizeof half);
        }
    }
}

/* A view with gaps between its rows and, one time in four, between its blocks. */
static bool create_view(const struct kt_shape *shape, enum kt_projection projection, uint64_t *state,
                        struct kt_view *view, struct guarded *data)
{
    uint32_t elements, bytes, dtype = shape->format[projection].dtype;
    kt_dtype_block(dtype, &elements, &bytes);
    uint64_t rows = projection_rows(shape, projection);
    uint64_t cols = projection_cols(shape, projection), blocks = cols / elements;
    uint64_t block_stride = bytes + (random_below(state, 4) ? 0 : 2 * (1 + random_below(state, 3)));
    uint64_t row_stride = blocks * block_stride + 2 * random_below(state, 9);
    if (elements == 1) { /* numbers stay aligned to their size */
        block_stride = block_stride == bytes ? bytes : 2 * bytes;
        row_stride = bytes * (blocks * (block_stride / bytes) + random_below(state, 9));
    }

    /* The memory ends with the last block, so that reads beyond it fault. */
    uint64_t size = (rows - 1) * row_stride + (blocks - 1) * block_stride + bytes;
    uint64_t align = elements == 1 ? bytes : bytes % 2 ? 1 : 2;
    uint8_t *row = malloc(blocks * bytes);
    if (!row || !guard_create("the source's weights", size, align, random_below(state, 2), data)) {
        free(row);
        return false;
    }
    for (uint64_t r = 0; r < rows; r++) {
        random_blocks(state, dtype, row, blocks);
        for (uint64_t b = 0; b < blocks; b++)
            memcpy(data->data + r * row_stride + b * block_stride, row + b * bytes, bytes);
    }
    free(row);
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = dtype;
    view->data = data->data;
    view->size = size;
    view->rows = rows;
    view->cols = cols;
    view->row_stride = (int64_t)row_stride;
    view->block_stride = (int64_t)block_stride;
    return true;
}

static bool create_bias(uint64_t rows, uint64_t *state, struct guarded *guarded)
{
    if (!guard_create("a bias", rows * sizeof(float), sizeof(float), random_below(state, 2), guarded))
        return false;
    float *bias = (float *)(void *)guarded->data;
    for (uint64_t i = 0; i < rows; i++)
        bias[i] = (float)(random_gaussian(state) * 0.5);
    return true;
}

bool source_create(const struct kt_shape *shape, uint64_t *state, struct source *source)
{
    struct kt_view *views[3] = {&source->expert.gate, &source->expert.up, &source->expert.down};
    memset(source, 0, sizeof *source);
    for (int p = (int)kt_activation_first(shape->activation); p <= KT_DOWN; p++) {
        enum kt_projection projection = (enum kt_projection)p;
        const struct kt_format *format = &shape->format[p];
        if (format->scale_dtype
                ? !create_scaled_view(state, format, projection_rows(shape, projection),
                                      projection_cols(shape, projection), views[p], source->data[p])
                : !create_view(shape, projection, state, views[p], &source->data[p][0]))
            return false;
        if (shape->has_bias & 1u << p &&
            !create_bias(projection_rows(shape, projection), state, &source->bias[p]))
            return false;
    }
    source->expert.gate_bias = (const float *)(const void *)source->bias[KT_GATE].data;
    source->expert.up_bias = (const float *)(const void *)source->bias[KT_UP].data;
    source->expert.down_bias = (const float *)(const void *)source->bias[KT_DOWN].data;
    return true;
}

void source_free(struct source *source)
{
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < 3; i++)
            guard_free(&source->data[p][i]);
        guard_free(&source->bias[p]);
    }
    memset(source, 0, sizeof *source);
}
