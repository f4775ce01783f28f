/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/sizes_tmpl.h - sizes of panels and rows where activations are int8, and what is refused.
 *
 * Parameters  BACKEND   the backend's name, for messages
 *             ROW_SUMS  1: sums of columns stand beside each row
 * Wanted      panel_size
 */
#ifndef KT_PLUGINS_COMMON_INT8_SIZES_TMPL_H
#define KT_PLUGINS_COMMON_INT8_SIZES_TMPL_H

#ifndef BACKEND
#error "int8/sizes_tmpl.h: define BACKEND"
#endif
#ifndef ROW_SUMS
#error "int8/sizes_tmpl.h: define ROW_SUMS"
#endif

#include "plugins/common/gemm/layout_tmpl.h"
#include "plugins/common/int8/rows.h"

/* Does it stand for real numbers, which the core can dequantize? */
static inline bool is_source(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16 ||
           dtype == KT_DTYPE_F64 || dtype == KT_DTYPE_I8 || dtype == KT_DTYPE_F8_E4M3 ||
           dtype == KT_DTYPE_F8_E5M2 || dtype == KT_DTYPE_INT4 || dtype == KT_DTYPE_F4_E2M1 ||
           dtype >= KT_DTYPE_Q4_0;
}

static inline enum kt_status check_shape(const struct instance *self, const struct kt_shape *shape,
                                         struct kt_error *error)
{
    /* Of a linear only the columns are added up. */
    uint64_t most_rows = is_linear(shape) ? UINT32_MAX : MAX_K;
    if (shape->hidden_size == 0 || shape->intermediate_size == 0 || shape->hidden_size > most_rows ||
        shape->intermediate_size > MAX_K)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND ": sizes %llu and %llu are outside 1..%llu and 1..%llu, where sums "
                                      "of int8 products fit in 32 bits",
                              (unsigned long long)shape->hidden_size,
                              (unsigned long long)shape->intermediate_size, (unsigned long long)most_rows,
                              (unsigned long long)MAX_K);
    for (int p = first_projection(shape); p <= KT_DOWN; p++)
        if (!is_source(shape->format[p].dtype))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  BACKEND ": the %s is %s, which is no format of weights "
                                          "that it could quantize",
                                  name_projection(shape, p), self->host->dtype_name(shape->format[p].dtype));
    return KT_OK;
}

/* Bytes of a packed activation row. */
static inline uint64_t size_act_row(uint64_t k)
{
    uint64_t columns = round_up(k, TILE_COLUMNS);
    uint64_t sums = ROW_SUMS ? columns / SUM_COLUMNS * 2 * sizeof(int16_t) : 0;
    return round_up(columns + sizeof(struct row_meta) + sums, 64) | 64;
}

/* All of a layout but nominal_size and form, from its shape; words that panel_size reads are set already. */
static inline enum kt_status lay_out(const struct instance *self, struct kt_layout *layout,
                                     struct kt_error *error)
{
    const struct kt_shape *shape = &layout->shape;
    enum kt_status status = check_shape(self, shape, error);
    if (status)
        return status;
    for (int stage = first_stage(shape); stage <= KT_STAGE_DOWN; stage++)
        lay_out_stage(self, layout, (enum kt_stage)stage,
                      size_act_row(stage_k(layout, (enum kt_stage)stage)));
    layout->k_unit = TILE_COLUMNS;
    if (!is_linear(shape))
        layout->h_row_size = h_columns(shape) * sizeof(float);
    layout->row_unit = TILE_ROWS;
    layout->y_dtype = self->y_dtype;
    layout->words[WORD_PREFETCH] = self->prefetch;
    return KT_OK;
}

#endif
