/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/numbers.h"

#include <string.h>

#define TAKES "f8_e4m3 without zeros, scales in f32, f16, bf16 or f8_e8m0"

static bool takes_format(const struct kt_format *format)
{
    bool scaled = format->scale_dtype == KT_DTYPE_F32 || format->scale_dtype == KT_DTYPE_F16 ||
                  format->scale_dtype == KT_DTYPE_BF16 || format->scale_dtype == KT_DTYPE_F8_E8M0;
    return format->dtype == KT_DTYPE_F8_E4M3 && scaled && format->zero_dtype == KT_DTYPE_NONE;
}

static float read_number(const uint8_t *codes, uint64_t row, uint64_t column, uint32_t dtype)
{
    uint8_t code = codes[column / 4 * 128 + find_code(row, column)];
    float number = bf16_to_float(bf16_of_codes[code & 0x7f]);
    (void)dtype;
    return code & 0x80 ? -number : number;
}

static inline void unpack_codes(const uint8_t *codes, uint64_t row, uint64_t begin, uint64_t end, uint8_t *to)
{
    const uint8_t *place = codes + find_code(row, 0);
    uint64_t c = begin;
    for (; c < end && c % 4; c++)
        *to++ = codes[c / 4 * 128 + find_code(row, c)];
    for (; c + 4 <= end; c += 4, to += 4) {
        memcpy(to, place + c / 4 * 128, 2);
        memcpy(to + 2, place + c / 4 * 128 + 8, 2);
    }
    for (; c < end; c++)
        *to++ = codes[c / 4 * 128 + find_code(row, c)];
}

#include "plugins/common/coded/layout_tmpl.h"

#include "plugins/common/coded/unpack_tmpl.h"

enum kt_status avx512_fp8_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(float), 0};
    return lay_out_codes(instance, layout, &form, error);
}

/* Activations of levels that shift the bits of codes: shifted_rows.h. */
enum kt_status avx512_fp8_layout_extra(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(float), (1 + TILE_COLUMNS) * sizeof(float)};
    return lay_out_codes(instance, layout, &form, error);
}

enum kt_status avx512_fp8_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(uint16_t), 0};
    return lay_out_codes(instance, layout, &form, error);
}

enum kt_status avx512_fp8_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                     const struct kt_expert *source, enum kt_projection projection,
                                     uint64_t row, float *out, struct kt_error *error)
{
    (void)instance;
    (void)source;
    return read_weights(layout, packed, projection, row, out, error);
}

void avx512_fp8_cut(void *instance, const struct kt_cut *job)
{
    (void)instance;
    cut_codes(job);
}

enum kt_status avx512_fp8_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error)
{
    (void)instance;
    (void)error;
    unpack_weights(job);
    return KT_OK;
}
