/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scales_check.c - are all scales of a weight finite? One that is not makes a whole group of weights NaN or
 * infinite, and with it all outputs. Scales are checked when an expert is requested, because only then they
 * are read anyway.
 *
 * A scale of FP8 is the largest weight divided by 448, so never negative; so are those of FP4. Those of
 * integers may be negative: a quantizer that uses all 16 codes gives the largest weight the code -8, whatever
 * its sign. One number beside a matrix of GGUF may be anything.
 */

#include "core/weights/decode/scales_check.h"

#include "core/base/error.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/dtype.h"

#include <inttypes.h>
#include <kt/kt.h>
#include <stdbool.h>
#include <string.h>

/* Loops of a fixed length are vectorized at -O2, too. */
enum { CHUNK = 32 };

/* Is one of n numbers, without the bits of `drop`, above `most`? */
#define FIND(name, type)                                                          \
    static bool name(const uint8_t *source, uint64_t n, type drop, type most)     \
    {                                                                             \
        type chunk[CHUNK];                                                        \
        for (uint64_t count; n > 0; n -= count, source += count * sizeof(type)) { \
            uint32_t found = 0;                                                   \
            count = n < CHUNK ? n : CHUNK;                                        \
            memset(chunk, 0, sizeof chunk);                                       \
            memcpy(chunk, source, count * sizeof(type));                          \
            for (int i = 0; i < CHUNK; i++)                                       \
                found |= (type)(chunk[i] & (type)~drop) > most;                   \
            if (found)                                                            \
                return true;                                                      \
        }                                                                         \
        return false;                                                             \
    }

FIND(find8, uint8_t)
FIND(find16, uint16_t)
FIND(find32, uint32_t)
FIND(find64, uint64_t)

/* What a scale of each dtype of kt_dtype_scales must not exceed without its sign. */
static const struct limit {
    uint64_t sign, most; /* bits */
} limits[] = {
    [KT_DTYPE_F32] = {0x80000000u, 0x7f7fffffu},
    [KT_DTYPE_BF16] = {0x8000, 0x7f7f},
    [KT_DTYPE_F16] = {0x8000, 0x7bff},
    [KT_DTYPE_F64] = {UINT64_C(1) << 63, UINT64_C(0x47efffffefffffff)}, /* rounds to a finite float */
    [KT_DTYPE_F8_E4M3] = {0x80, 0x7e},
    [KT_DTYPE_F8_E5M2] = {0x80, 0x7b},
    [KT_DTYPE_F8_E8M0] = {0, 0xfe},
};

/* Is one of n dense numbers not finite, or negative if that is not allowed? */
static bool find_odd(const uint8_t *source, uint64_t n, uint32_t dtype, bool negative)
{
    const struct limit *limit = &limits[dtype];
    uint64_t drop = negative ? limit->sign : 0;
    switch (kt_dtype_find(dtype)->bytes) {
    case 1:
        return find8(source, n, (uint8_t)drop, (uint8_t)limit->most);
    case 2:
        return find16(source, n, (uint16_t)drop, (uint16_t)limit->most);
    case 4:
        return find32(source, n, (uint32_t)drop, (uint32_t)limit->most);
    default: /* 8: f64 */
        return find64(source, n, drop, limit->most);
    }
}

/* The index of the first such number of n, `step` bytes apart, or n. */
static uint64_t find_first(const uint8_t *line, int64_t step, uint64_t n, uint32_t dtype, bool negative)
{
    uint64_t i = 0;
    for (; i < n; i++) {
        const uint8_t *number = line + (int64_t)i * step;
        if (find_odd(number, 1, dtype, negative) && kt_dtype_number(dtype, number) != 0) /* -0 is 0 */
            break;
    }
    return i;
}

enum kt_status kt_scales_check(const struct kt_view *view, const char *label, const char *name,
                               struct kt_error *error)
{
    const struct kt_scales *scales = &view->scales;
    uint64_t rows = (view->rows - 1) / scales->group_rows + 1;
    uint64_t cols = (view->cols - 1) / scales->group_cols + 1;
    int64_t bytes = kt_dtype_find(scales->dtype)->bytes;
    bool negative = view->dtype != KT_DTYPE_F8_E4M3 && view->dtype != KT_DTYPE_F4_E2M1;
    /* Along the dense direction. */
    bool turned = cols == 1 || scales->col_stride != bytes;
    uint64_t lines = turned ? cols : rows, n = turned ? rows : cols;
    int64_t across = turned ? scales->col_stride : scales->row_stride;
    int64_t along = turned ? scales->row_stride : scales->col_stride;
    for (uint64_t i = 0; i < lines; i++) {
        const uint8_t *line = (const uint8_t *)scales->data + (int64_t)i * across;
        if (along == bytes && !find_odd(line, n, scales->dtype, negative))
            continue;
        uint64_t at = find_first(line, along, n, scales->dtype, negative);
        if (at == n)
            continue;
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": the scale of row %" PRIu64 ", column %" PRIu64
                       " on is %g; it must be a finite number%s: the weights are damaged",
                       label, name, (turned ? at : i) * scales->group_rows,
                       (turned ? i : at) * scales->group_cols,
                       (double)kt_dtype_number(scales->dtype, line + (int64_t)at * along),
                       negative ? "" : " of at least 0");
    }
    return KT_OK;
}
