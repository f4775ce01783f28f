/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - sizes of packed objects and rows, and packed weights back to float32. */
#include "plugins/rawint4/rawint4.h"

#include "plugins/common/simd/numbers.h"

#include <string.h>

#define TAKES "int4, with zeros in u8 or without, and f4_e2m1; scales in f32, f16, bf16 or f8_e8m0"

static bool takes_format(const struct kt_format *format)
{
    bool scaled = format->scale_dtype == KT_DTYPE_F32 || format->scale_dtype == KT_DTYPE_F16 ||
                  format->scale_dtype == KT_DTYPE_BF16 || format->scale_dtype == KT_DTYPE_F8_E8M0;
    bool zeros = format->zero_dtype == KT_DTYPE_NONE ||
                 (format->dtype == KT_DTYPE_INT4 && format->zero_dtype == KT_DTYPE_U8);
    return (format->dtype == KT_DTYPE_INT4 || format->dtype == KT_DTYPE_F4_E2M1) && scaled && zeros;
}

static float read_number(const uint8_t *codes, uint64_t row, uint64_t column, uint32_t dtype)
{
    static const uint16_t table[16] = E2M1_TABLE;
    uint32_t lane = load_u32(codes + column / 8 * 128 + 4 * row);
    unsigned code = lane >> (column % 2 * 16 + column % 8 / 2 * 4) & 15;
    return dtype == KT_DTYPE_INT4 ? (float)code : bf16_to_float(table[code]);
}

/* The inverse of order_codes (pack.h). */
static uint32_t join_columns(uint32_t word)
{
    uint32_t swap = (word ^ word >> 8) & 0x0000ff00;
    word ^= swap ^ swap << 8;
    swap = (word ^ word >> 4) & 0x00f000f0;
    return word ^ swap ^ swap << 4;
}

static inline void unpack_codes(const uint8_t *codes, uint64_t row, uint64_t begin, uint64_t end, uint8_t *to)
{
    for (uint64_t c = begin; c < end; c += 8, to += 4) {
        uint32_t word = join_columns(load_u32(codes + c / 8 * 128 + 4 * row));
        memcpy(to, &word, sizeof word);
    }
}

#include "plugins/common/coded/layout_tmpl.h"

#include "plugins/common/coded/unpack_tmpl.h"

/* Rows of a level's own form or, if they are to be, of int8 with a sum and a scale for each 32. */
static enum kt_status lay_out_rows(const struct rawint4_instance *self, struct kt_layout *layout,
                                   struct row_form form, struct kt_error *error)
{
    if (self->int8_rows)
        form = (struct row_form){sizeof(int8_t), 2 * sizeof(float)};
    enum kt_status status = lay_out_codes(&self->base, layout, &form, error);
    if (status == KT_OK)
        layout->words[WORD_INT8_ROWS] = self->int8_rows;
    return status;
}

enum kt_status rawint4_layout_floats(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    return lay_out_rows(instance, layout, (struct row_form){sizeof(float), sizeof(float)}, error);
}

enum kt_status rawint4_layout_extra(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    return lay_out_rows(instance, layout,
                        (struct row_form){sizeof(float), 2 * sizeof(float) + FIXED_POINT_BYTES}, error);
}

enum kt_status rawint4_layout_pairs(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    return lay_out_rows(instance, layout, (struct row_form){sizeof(uint16_t), sizeof(float)}, error);
}

/* Tiles are bfloat16 whatever was asked for; what stands behind them, few rows alone read. */
enum kt_status rawint4_layout_tiles(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    const struct row_form form = {sizeof(uint16_t), 2 * sizeof(float) + FIXED_POINT_BYTES};
    const struct row_form read = {sizeof(uint16_t), 0};
    enum kt_status status = lay_out_codes(instance, layout, &form, error);
    for (int stage = first_stage(&layout->shape); stage <= KT_STAGE_DOWN && status == KT_OK; stage++)
        layout->words[WORD_ROW_BLOCK + stage] =
            limit_row_block(instance, size_row(stage_k(layout, (enum kt_stage)stage), &read));
    return status;
}

enum kt_status rawint4_weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                  const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                  float *out, struct kt_error *error)
{
    (void)instance;
    (void)source;
    return read_weights(layout, packed, projection, row, out, error);
}

void rawint4_cut(void *instance, const struct kt_cut *job)
{
    (void)instance;
    cut_codes(job);
}

enum kt_status rawint4_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error)
{
    (void)instance;
    (void)error;
    unpack_weights(job);
    return KT_OK;
}
