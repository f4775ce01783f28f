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
    if (shape->hidden_size == 0 || shape->intermediate_size == 0 || shape->hidden_size > MAX_K ||
        shape->intermediate_size > MAX_K)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              BACKEND ": sizes %llu and %llu are outside 1..%llu, where sums of int8 "
                                      "products fit in 32 bits",
                              (unsigned long long)shape->hidden_size,
                              (unsigned long long)shape->intermediate_size, (unsigned long long)MAX_K);
    for (int p = 0; p < 3; p++)
        if (!is_source(shape->format[p].dtype))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  BACKEND ": the %s projection is %s, which is no format of weights "
                                          "that it could quantise",
                                  projection_names[p], self->host->dtype_name(shape->format[p].dtype));
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
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    enum kt_status status = check_shape(self, &layout->shape, error);
    if (status)
        return status;
    uint64_t gate_panels = round_up(intermediate, TILE_ROWS) / TILE_ROWS;
    uint64_t down_panels = round_up(hidden, PANEL_ROWS) / PANEL_ROWS;
    layout->panel_rows[0] = TILE_ROWS;
    layout->panel_rows[1] = PANEL_ROWS;
    layout->k_unit = TILE_COLUMNS;
    layout->weight_size[0] = gate_panels * panel_size(layout, KT_STAGE_GATE_UP);
    layout->weight_size[1] = down_panels * panel_size(layout, KT_STAGE_DOWN);
    layout->act_row_size[0] = size_act_row(hidden);
    layout->act_row_size[1] = size_act_row(intermediate);
    layout->h_row_size = gate_panels * TILE_ROWS * sizeof(float);
    layout->row_unit = TILE_ROWS;
    layout->y_dtype = self->y_dtype;
    layout->words[WORD_ROW_BLOCK + KT_STAGE_GATE_UP] = limit_row_block(self, layout->act_row_size[0]);
    layout->words[WORD_ROW_BLOCK + KT_STAGE_DOWN] = limit_row_block(self, layout->act_row_size[1]);
    layout->words[WORD_PREFETCH] = self->prefetch;
    return KT_OK;
}

#endif
