/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread.c - do the two bfloat16 numbers that a weight of level amx may become (model_scaled.c) hold
 * what the kernel's own steps give, as float32 computes them one by one, also where weights are far smaller
 * than their scale? And is that one number for nearly all weights? */
#include "core/weights/decode/decode.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/dtype.h"
#include "tests/checkkernel/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 256u
#define ROWS 500u

/* Formats with minima: 12 or 16 bytes of scales that are all ones make every scale and minimum `factor`. */
static const struct format {
    uint32_t dtype, columns, scale, minimum, ones, n_ones, codes, bytes;
    float factor, base;
} formats[] = {
    {KT_DTYPE_Q4_1, 32, 0, 2, 0, 0, 4, 20, 1, 256},       {KT_DTYPE_Q5_1, 32, 0, 2, 0, 0, 4, 24, 1, 128},
    {KT_DTYPE_Q2_K, 256, 80, 82, 0, 16, 16, 84, 15, 128}, {KT_DTYPE_Q4_K, 256, 0, 2, 4, 12, 16, 144, 63, 256},
    {KT_DTYPE_Q5_K, 256, 0, 2, 4, 12, 16, 176, 63, 128},
};

extern const struct model llamafile_model;
const struct model *const check_models[] = {&llamafile_model, NULL};

/* checkkernel's main.c has these. */
void check_fail(struct check *check, const char *message, ...)
{
    (void)message;
    check->wrong = true;
}

void check_enter(const struct check *check, const char *function)
{
    (void)check;
    (void)function;
}

static float read_half(const uint8_t *bytes)
{
    return kt_f16_float(kt_load16(bytes));
}

/* A row of blocks; of every other one all codes are 0. Minima are smaller than scales by up to 2^15, or not.
 */
static void make_row(const struct format *format, uint64_t *state, uint8_t *row)
{
    for (uint32_t b = 0; b < COLUMNS / format->columns; b++, row += format->bytes) {
        const bool low = random_below(state, 2);
        for (uint32_t i = 0; i < format->bytes; i++)
            row[i] = i >= format->codes && low ? 0 : (uint8_t)random_next(state);
        memset(row + format->ones, 0xff, format->n_ones);
        for (unsigned i = 0; i < 2; i++) { /* exponents of 2^-14 to 2^0 */
            uint32_t at = i ? format->minimum : format->scale;
            row[at + 1] = (uint8_t)((row[at + 1] & 0x83) | (1 + random_below(state, 14)) << 2);
        }
    }
}

static float round_as_kernel(float value, uint32_t column)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + (column % 2 ? 0x7fff : 0x8000)) & 0xffff0000;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What llamafile/dequantize.h makes of a weight, whose code is found by what it is. */
static float expand(float weight, float scale, float minimum, float base, uint32_t column)
{
    float code = nearbyintf((float)(((double)weight + (double)minimum) / (double)scale));
    float offset = -base * scale;
    offset -= minimum;
    return round_as_kernel(fmaf(code + base, scale, offset), column);
}

static int check_weights_of(const struct format *format, struct check *check, const uint8_t *blocks)
{
    unsigned outside = 0, either = 0;
    const float *rounded, *spread;
    model_round(check, KT_DOWN);
    rounded = check->rounded[KT_DOWN];
    spread = check->spread[KT_DOWN];
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        const uint8_t *block = blocks + i / format->columns * format->bytes;
        float scale = read_half(block + format->scale) * format->factor;
        float minimum = read_half(block + format->minimum) * format->factor;
        if (format->n_ones == 0)
            minimum = -minimum;
        for (float base = 16; base <= format->base; base *= format->base / 16) { /* 16: of odd nibbles */
            float made = expand(check->weights[KT_DOWN][i], scale, minimum, base, i % COLUMNS);
            outside += made < rounded[i] - spread[i] || made > rounded[i] + spread[i];
        }
        either += spread[i] > 0;
    }
    printf("%s: %u of %u weights outside, %u with two values\n", kt_dtype_name(format->dtype), outside,
           ROWS * COLUMNS, either);
    return outside > 0 || either > ROWS * COLUMNS / 4;
}

static int check_format(const struct format *format, const struct kt_level *level, uint64_t *state)
{
    static struct check check;
    struct kt_error error = {KT_OK, ""};
    struct kt_view *view = &check.source.expert.down;
    const uint64_t row_size = (uint64_t)COLUMNS / format->columns * format->bytes;
    uint8_t *blocks = check_need(malloc(ROWS * row_size));
    memset(&check, 0, sizeof check);
    check.level = level;
    check.model = &llamafile_model;
    check.layout.shape.format[KT_DOWN].dtype = format->dtype;
    check.layout.shape.hidden_size = ROWS;
    check.layout.shape.intermediate_size = COLUMNS;
    for (uint32_t r = 0; r < ROWS; r++)
        make_row(format, state, blocks + r * row_size);
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = format->dtype;
    view->data = blocks;
    view->size = ROWS * row_size;
    view->rows = ROWS;
    view->cols = COLUMNS;
    view->row_stride = (int64_t)row_size;
    view->block_stride = format->bytes;
    check.weights[KT_DOWN] = check_need(malloc(ROWS * COLUMNS * sizeof(float)));
    for (uint32_t r = 0; r < ROWS; r++)
        if (kt_view_dequantize(view, r, 0, COLUMNS, check.weights[KT_DOWN] + r * COLUMNS, &error))
            abort();
    check_minima(&check);
    int failed = check_weights_of(format, &check, blocks) || check.wrong;
    free(blocks);
    free(check.weights[KT_DOWN]);
    free(check.minima[KT_DOWN]);
    free(check.rounded[KT_DOWN]);
    free(check.spread[KT_DOWN]);
    return failed;
}

int main(void)
{
    const struct kt_level level = {.name = "amx"};
    uint64_t state = 1;
    int failed = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        failed |= check_format(&formats[i], &level, &state);
    return failed;
}
